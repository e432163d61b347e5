"""Transactional ids that leak: how many each prefix has, how fast they grow, which never come back. Counted as they are seen.

The coordinator keeps an id for a week after its last use (transactional.id.expiration.ms), so an application that makes new ids all
the time fills its memory, and __transaction_state. One id costs an entry of a dict here, and an answer costs nothing per id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from indoubt.collector.records.application_ids import form_of, name_by_id
from indoubt.lifecycle.durations import HOUR_MS
from indoubt.lifecycle.rows.pipelines import IdsRow

GROWTH_HOURS = 24
CREATED_KEPT_HOURS = 48
STALE_HOURS = 1
"""An id of which nothing was seen for this long, and up to an hour more, while others of its prefix were used."""
LEAK_STALE_IDS = 100
"""So many that never came back are no accident."""
FENCES_OF_A_FIGHT = 3
MAX_PREFIXES = 10_000
OTHERS = "(others)"
"""Where ids go once there are too many prefixes: then the prefixes themselves leak."""
_HOUR_BITS = 24
_HOUR_MASK = (1 << _HOUR_BITS) - 1
_MAX_HOURS = 1_000
_MAX_USES = 20_000


@dataclass(slots=True)
class PrefixIds:
    """The ids of one form, or of one application, counted. Hours are whole hours since the epoch, by the broker's clock."""

    prefix: str
    ids: int = 0
    newest_ms: int = 0
    newest_id: str = ""
    created: dict[int, int] = field(default_factory=dict)
    """Ids first seen, by hour."""
    expired: dict[int, int] = field(default_factory=dict)
    last_used: dict[int, int] = field(default_factory=dict)
    """Ids by the hour in which something was seen of them last."""
    floor: int = 0
    """The earliest hour that is told apart."""

    def use(self, hour: int, before: int | None) -> None:
        """Move one id to the hour of its last use; ``before`` None: it is new."""
        if before is not None:
            self._take(before)
        at = max(hour, self.floor)
        self.last_used[at] = self.last_used.get(at, 0) + 1
        if len(self.last_used) > _MAX_HOURS:
            self._merge_oldest()

    def drop(self, before: int) -> None:
        """Forget one id."""
        self.ids -= 1
        self._take(before)
        _count(self.expired, self.newest_ms // HOUR_MS)

    def add(self, other: PrefixIds) -> None:
        """Count the ids of another form of the same application too."""
        self.ids += other.ids
        self.newest_ms, self.newest_id = max((self.newest_ms, self.newest_id), (other.newest_ms, other.newest_id))
        for mine, more in (
            (self.created, other.created),
            (self.expired, other.expired),
            (self.last_used, other.last_used),
        ):
            for hour, count in more.items():
                mine[hour] = mine.get(hour, 0) + count

    def _take(self, hour: int) -> None:
        at = max(hour, self.floor)
        left = self.last_used.get(at, 0) - 1
        if left > 0:
            self.last_used[at] = left
        else:
            self.last_used.pop(at, None)

    def _merge_oldest(self) -> None:
        hours = sorted(self.last_used)
        self.floor = hours[_MAX_HOURS // 2]
        merged = sum(self.last_used.pop(hour) for hour in hours if hour < self.floor)
        self.last_used[self.floor] = self.last_used.get(self.floor, 0) + merged


@dataclass(slots=True)
class KnownIds:
    """Every id that the coordinator was seen to know, by the hash of its name: 1,000,000 of them take 75 MB."""

    forms: dict[str, PrefixIds] = field(default_factory=dict)
    """By ``application_ids.form_of``: what is known of pipelines and Flink may give them another name tomorrow."""
    _by_number: list[PrefixIds] = field(default_factory=list, compare=False)
    _numbers: dict[str, int] = field(default_factory=dict, compare=False)
    _ids: dict[int, int] = field(default_factory=dict, compare=False)
    """Hash of the id -> number of its prefix and hour of its last use."""
    _uses: dict[int, int] = field(default_factory=dict, compare=False)
    """One number for equal ones: most ids share their prefix and their hour with many."""

    def __len__(self) -> int:
        return len(self._ids)

    def see(self, id_: str, at_ms: int, created_ms: int | None = None) -> None:
        """Note that something happened to an id at ``at_ms``; ``created_ms``: when it was first seen, where that was earlier."""
        key, hour = hash(id_), _hour(at_ms)
        packed = self._ids.get(key)
        number = self._number_of(id_) if packed is None else packed >> _HOUR_BITS
        before = None if packed is None else packed & _HOUR_MASK
        found = self._by_number[number]
        if before is None:
            found.ids += 1
            _count(found.created, _hour(at_ms if created_ms is None else created_ms))
        if (at_ms, id_) > (found.newest_ms, found.newest_id):
            found.newest_ms, found.newest_id = at_ms, id_
        if before is None or hour > before:
            found.use(hour, before)
            use = number << _HOUR_BITS | hour
            if len(self._uses) > _MAX_USES:
                self._uses.clear()
            self._ids[key] = self._uses.setdefault(use, use)

    def expire(self, id_: str) -> None:
        """Note that the coordinator forgot an id."""
        packed = self._ids.pop(hash(id_), None)
        if packed is not None:
            self._by_number[packed >> _HOUR_BITS].drop(packed & _HOUR_MASK)

    def _number_of(self, id_: str) -> int:
        # Where every run has a prefix of its own, there are too many forms long before there are too many applications.
        for form, most in ((form_of(id_), MAX_PREFIXES), (name_by_id(id_), 2 * MAX_PREFIXES)):
            if form in self._numbers or len(self._by_number) < most:
                break
        else:
            form = OTHERS
        number = self._numbers.get(form)
        if number is None:
            number = self._numbers[form] = len(self._by_number)
            self.forms[form] = PrefixIds(form)
            self._by_number.append(self.forms[form])
        return number


def reports(
    known: KnownIds,
    name_of: Callable[[str], str],
    checkpoint_ids: Mapping[str, tuple[str, ...]],
    fenced: Mapping[str, int],
    at_ms: int,
) -> Iterator[IdsRow]:
    """Yield a report per application that has ids, most ids first.

    ``name_of``: gives an id the name of its application; ``checkpoint_ids``: of our prefixes, the checkpoint_id of each run in
    log order; ``fenced``: transactions of each application that were open when another producer took their id, in the last hour.
    """
    for found in sorted(_named(known.forms.values(), name_of), key=lambda found: (-found.ids, found.prefix)):
        if found.ids > 0:
            yield _report(found, checkpoint_ids.get(found.prefix, ()), fenced.get(found.prefix, 0), at_ms)


def _named(forms: Iterable[PrefixIds], name_of: Callable[[str], str]) -> Iterable[PrefixIds]:
    named: dict[str, PrefixIds] = {}
    for form in forms:
        name = OTHERS if form.prefix == OTHERS else name_of(form.prefix)
        named.setdefault(name, PrefixIds(name)).add(form)
    return named.values()


def _report(found: PrefixIds, checkpoint_ids: tuple[str, ...], fenced: int, at_ms: int) -> IdsRow:
    hour, newest_hour = _hour(at_ms), _hour(found.newest_ms)
    stale = sum(count for at, count in found.last_used.items() if at < newest_hour - STALE_HOURS)
    growth = _growth(found, hour)
    leaks = stale >= LEAK_STALE_IDS and growth > 0
    turns = takes_turns(checkpoint_ids)
    reasons = []
    if leaks:
        reasons.append(
            f"{stale} of {found.ids} ids were not used again while others were, and {growth:g} more come every hour"
        )
    if turns:
        reasons.append(f"{len(set(checkpoint_ids))} checkpoint directories take turns under it: two pipelines share it")
    if fenced >= FENCES_OF_A_FIGHT:
        reasons.append(
            f"{fenced} open transactions lost their id to another producer within an hour: two writers share it"
        )
    return IdsRow(
        prefix=found.prefix,
        ids=found.ids,
        growth_per_hour=growth,
        ids_by_hour=_by_hour(found, hour),
        stale_ids=stale,
        newest_at_ms=found.newest_ms,
        oldest_at_ms=min(found.last_used, default=0) * HOUR_MS,
        checkpoint_ids=len(set(checkpoint_ids)),
        fenced_last_hour=fenced,
        leaks=leaks,
        shared=turns or fenced >= FENCES_OF_A_FIGHT,
        why="; ".join(reasons),
        example=found.newest_id,
    )


def takes_turns(checkpoint_ids: tuple[str, ...]) -> bool:
    """Say whether a checkpoint id came back after another one: a new checkpoint directory never gives way to an old one."""
    seen: list[str] = []
    for checkpoint_id in checkpoint_ids:
        if checkpoint_id in seen and seen[-1] != checkpoint_id:
            return True
        if checkpoint_id not in seen:
            seen.append(checkpoint_id)
    return False


def _growth(found: PrefixIds, hour: int) -> float:
    """Return new ids less expired ones per hour, over the complete hours of the last day in which the prefix was known."""
    first = min(found.created, default=hour)
    hours = min(GROWTH_HOURS, max(1, hour - first))
    since = hour - hours
    made = sum(count for at, count in found.created.items() if since <= at)
    gone = sum(count for at, count in found.expired.items() if since <= at)
    return round((made - gone) / hours, 1)


def _by_hour(found: PrefixIds, hour: int) -> tuple[int, ...]:
    """Return how many ids there were at the end of each hour of the last day: what came since then is taken away again."""
    number, backwards = found.ids, []
    for end in range(hour, hour - GROWTH_HOURS, -1):
        backwards.append(max(0, number))
        number += found.expired.get(end, 0) - found.created.get(end, 0)
    return tuple(reversed(backwards))


def _hour(at_ms: int) -> int:
    return min(max(0, at_ms // HOUR_MS), _HOUR_MASK)


def _count(by_hour: dict[int, int], hour: int) -> None:
    by_hour[hour] = by_hour.get(hour, 0) + 1
    if len(by_hour) > 2 * CREATED_KEPT_HOURS:
        for old in sorted(by_hour)[:-CREATED_KEPT_HOURS]:
            del by_hour[old]
