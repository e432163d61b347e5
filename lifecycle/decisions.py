"""The decision log: its records, their codec, and the rules that say which decision counts.

The log is one Kafka partition and its order is the truth. Three rules make it a lock without a lock:
(1) the first decision for a (life, batch, attempt) counts, every later one is void;
(2) a commit decision is void if another run of the same prefix started between its own run's start and it;
(3) the first outcome for a handle counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from lifecycle.errors import MalformedRecord, UnknownVersion
from lifecycle.identity import Handle
from lifecycle.json_record import read_object

RECORD_VERSION = 1


class Ruling(Enum):
    """What a decision says about its batch."""

    COMMIT = "commit"
    ABORT = "abort"


class Settled(Enum):
    """How a decided handle ended."""

    COMMITTED = "committed"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAttempt:
    """One try at one batch of one checkpoint directory: what a decision is about.

    ``attempt`` is the log offset of the run's *run started* record.
    """

    life: str
    batch: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run of a prefix began; its offset in the log is the run's attempt number."""

    prefix: str
    life: str
    run: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Commit exactly these handles, or abort the batch; ``who`` is a run or an operator."""

    prefix: str
    about: BatchAttempt
    ruling: Ruling
    handles: tuple[Handle, ...]
    who: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one decided handle ended, by its key."""

    prefix: str
    about: BatchAttempt
    handle_key: str
    settled: Settled
    who: str
    at_ms: int


DecisionRecord = RunStarted | Decision | Outcome


def encode(record: DecisionRecord) -> bytes:
    """Return the record as it stands in the log: one JSON object, UTF-8."""
    value: dict[str, Any] = {"version": RECORD_VERSION, "prefix": record.prefix, "at_ms": record.at_ms}
    match record:
        case RunStarted():
            value |= {"type": "run_started", "life": record.life, "run": record.run}
        case Decision():
            value |= {"type": "decision", "ruling": record.ruling.value, "who": record.who}
            value |= {"handles": [handle.to_json() for handle in record.handles], **_about(record.about)}
        case Outcome():
            value |= {"type": "outcome", "handle": record.handle_key, "settled": record.settled.value}
            value |= {"who": record.who, **_about(record.about)}
    return json.dumps(value, separators=(",", ":")).encode()


def decode(value: bytes | None) -> DecisionRecord:
    """Return the record. Raises UnknownVersion for a newer format and MalformedRecord that says which field is wrong."""
    fields = read_object(value, "decision record")
    if fields.get("version") != RECORD_VERSION:
        raise UnknownVersion(
            f"decision record has version {fields.get('version')!r}; this program knows {RECORD_VERSION}"
        )
    try:
        match fields["type"]:
            case "run_started":
                return RunStarted(
                    prefix=_text(fields, "prefix"),
                    life=_text(fields, "life"),
                    run=_text(fields, "run"),
                    at_ms=_int(fields, "at_ms"),
                )
            case "decision":
                return Decision(
                    prefix=_text(fields, "prefix"),
                    about=_read_about(fields),
                    ruling=Ruling(fields["ruling"]),
                    handles=tuple(Handle.from_json(handle) for handle in fields["handles"]),
                    who=_text(fields, "who"),
                    at_ms=_int(fields, "at_ms"),
                )
            case "outcome":
                return Outcome(
                    prefix=_text(fields, "prefix"),
                    about=_read_about(fields),
                    handle_key=_text(fields, "handle"),
                    settled=Settled(fields["settled"]),
                    who=_text(fields, "who"),
                    at_ms=_int(fields, "at_ms"),
                )
            case other:
                raise MalformedRecord(f"decision record has type {other!r}")
    except KeyError as error:
        raise MalformedRecord(f"decision record has no {error}") from None
    except (TypeError, ValueError) as error:
        raise MalformedRecord(f"decision record: {error}") from None


@dataclass(slots=True)
class DecisionLedger:
    """The log folded in its order: who started, what counts, how handles ended. Feed every record once, in log order."""

    next_offset: int = 0
    _runs: dict[str, list[tuple[int, RunStarted]]] = field(default_factory=dict)
    _first: dict[BatchAttempt, tuple[int, Decision, bool]] = field(default_factory=dict)
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _listed: dict[str, BatchAttempt] = field(default_factory=dict)

    def apply(self, offset: int, record: DecisionRecord) -> bool:
        """Fold one record; return True when it counts. An offset that was folded before is ignored (and does not count)."""
        if offset < self.next_offset:
            return False
        self.next_offset = offset + 1
        match record:
            case RunStarted():
                self._runs.setdefault(record.prefix, []).append((offset, record))
                return True
            case Decision():
                if record.about in self._first:
                    return False
                counts = record.ruling is Ruling.ABORT or self._is_current(record)
                self._first[record.about] = (offset, record, counts)
                if counts and record.ruling is Ruling.COMMIT:
                    self._listed.update((handle.key, record.about) for handle in record.handles)
                return counts
            case Outcome():
                return self._outcomes.setdefault(record.handle_key, record) is record

    def forget(self, about: BatchAttempt) -> None:
        """Drop what is known of an attempt that is settled, so that a reader who only shows the log stays within its memory.

        Whoever decides or commits reads the log itself: a decision about a forgotten attempt would be taken for its first.
        """
        found = self._first.pop(about, None)
        for handle in found[1].handles if found else ():
            self._listed.pop(handle.key, None)
            self._outcomes.pop(handle.key, None)

    def skip(self, offset: int) -> None:
        """Pass over a record that cannot be understood, so that the next one is expected."""
        self.next_offset = max(self.next_offset, offset + 1)

    def _is_current(self, decision: Decision) -> bool:
        runs = self._runs.get(decision.prefix, [])
        if not runs:
            return False
        offset, run = runs[-1]
        return offset == decision.about.attempt and run.life == decision.about.life

    def counting(self, about: BatchAttempt) -> Decision | None:
        """Return the decision that counts for this attempt, commit or abort, or None."""
        found = self._first.get(about)
        return found[1] if found and found[2] else None

    def first(self, about: BatchAttempt) -> tuple[int, Decision, bool] | None:
        """Return (offset, decision, whether it counts) of the first decision for this attempt: it says who was first."""
        return self._first.get(about)

    def latest_run(self, prefix: str) -> tuple[int, RunStarted] | None:
        """Return (offset, record) of the newest run of the prefix."""
        runs = self._runs.get(prefix)
        return runs[-1] if runs else None

    def life_of(self, prefix: str, attempt: int) -> str | None:
        """Return the life of the run of this prefix that started at this offset, or None when the log has none there."""
        return next((run.life for offset, run in reversed(self._runs.get(prefix, [])) if offset == attempt), None)

    def lives(self, prefix: str) -> tuple[str, ...]:
        """Return the life of each run of the prefix, in log order."""
        return tuple(run.life for _, run in self._runs.get(prefix, []))

    def prefixes(self) -> frozenset[str]:
        """Return every prefix that ever started a run."""
        return frozenset(self._runs)

    def commit_decisions(self, prefix: str, life: str | None = None) -> list[tuple[int, Decision]]:
        """Return the commit decisions of a prefix that count, in log order, with their offsets; of one life if given."""
        return [
            (offset, decision)
            for offset, decision, counts in self._first.values()
            if counts
            and decision.ruling is Ruling.COMMIT
            and decision.prefix == prefix
            and (life is None or decision.about.life == life)
        ]

    def life_commits(self, life: str) -> list[Decision]:
        """Return the commit decisions of a life that count, in no order."""
        return [
            decision
            for about, (_, decision, counts) in self._first.items()
            if counts and decision.ruling is Ruling.COMMIT and about.life == life
        ]

    def commits_of(self, life: str, batch: int) -> list[Decision]:
        """Return the commit decisions of this batch that count, in log order: more than one after a replay.

        The lost handles of the last one are what is missing.
        """
        found = [
            (offset, decision)
            for about, (offset, decision, counts) in self._first.items()
            if counts and decision.ruling is Ruling.COMMIT and (about.life, about.batch) == (life, batch)
        ]
        return [decision for _, decision in sorted(found, key=lambda pair: pair[0])]

    def listing(self, handle_key: str) -> tuple[int, Decision] | None:
        """Return (offset, decision) of the commit decision that counts and lists this handle, or None."""
        about = self._listed.get(handle_key)
        if about is None:
            return None
        offset, decision, _ = self._first[about]
        return offset, decision

    def outcome(self, handle_key: str) -> Outcome | None:
        """Return the first outcome recorded for a handle, or None while it is not settled."""
        return self._outcomes.get(handle_key)

    def unsettled(self, prefix: str) -> list[tuple[Decision, Handle]]:
        """Return the handles of the prefix that were decided to be committed and may not be, oldest decision first.

        Only the last decided batch of each life can hold any: its run goes on to the next batch after every handle
        of this one was committed. Handles with an outcome are settled.
        """
        decisions = sorted(self.commit_decisions(prefix), key=lambda pair: pair[0])
        last_batch: dict[str, int] = {}
        for _, decision in decisions:
            about = decision.about
            last_batch[about.life] = max(last_batch.get(about.life, -1), about.batch)
        return [
            (decision, handle)
            for _, decision in decisions
            for handle in decision.handles
            if decision.about.batch == last_batch[decision.about.life] and handle.key not in self._outcomes
        ]


def fold(records: Iterable[tuple[int, DecisionRecord]]) -> DecisionLedger:
    """Return the ledger of (offset, record) pairs given in log order."""
    ledger = DecisionLedger()
    for offset, record in records:
        ledger.apply(offset, record)
    return ledger


def _about(about: BatchAttempt) -> dict[str, Any]:
    return {"life": about.life, "batch": about.batch, "attempt": about.attempt}


def _read_about(fields: dict[str, Any]) -> BatchAttempt:
    return BatchAttempt(life=_text(fields, "life"), batch=_int(fields, "batch"), attempt=_int(fields, "attempt"))


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields[name], str):
        raise MalformedRecord(f"decision record field {name!r} is {fields[name]!r}, not text")
    return str(fields[name])


def _int(fields: dict[str, Any], name: str) -> int:
    if not isinstance(fields[name], int) or isinstance(fields[name], bool):
        raise MalformedRecord(f"decision record field {name!r} is {fields[name]!r}, not a whole number")
    return int(fields[name])
