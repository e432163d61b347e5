"""Seed -> schedule: which faults, in which order, with which parameters. Pure: the same seed gives the same schedule.

Ten seeds in a row, from one that ends in 1 (1 to 10, 11 to 20), hold every fault at least once: the faults are dealt to
them like cards, by dice of the ten. All else is drawn by dice of the seed alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

SEEDS_OF_A_DEAL = 10


class Sink(Enum):
    """What the pipeline writes to; the value says it to people."""

    TOPIC = "topic"
    TOPIC_AND_MYSQL = "topic and MariaDB table, one global transaction"
    TOPIC_AND_POSTGRES = "topic and PostgreSQL table, one global transaction"
    COUNTS_IN_MYSQL = "running counts in a MariaDB table (upserts)"

    @property
    def has_topic(self) -> bool:
        """Say whether a topic is among what is written."""
        return self is not Sink.COUNTS_IN_MYSQL

    @property
    def database(self) -> str:
        """Return the kind of the database that is written to, empty for none."""
        return {Sink.TOPIC: "", Sink.TOPIC_AND_POSTGRES: "postgres"}.get(self, "mysql")


TASK_POINTS = ("before-begin", "while-writing", "after-flush", "slot-prepared")
COMMIT_POINTS = ("after-prepare", "before-decision", "after-decision", "mid-commit", "after-commit")
WORKER_POINTS = TASK_POINTS + COMMIT_POINTS
DRIVER_POINTS = (*WORKER_POINTS, "mid-recovery")
UNDECIDED_POINTS = ("after-prepare", "before-decision")
OPEN_POINTS = ("after-flush", "slot-prepared", "after-prepare", "before-decision", "after-decision", "mid-commit")
"""Where a transaction is open, so that it can time out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault by its name. ``points``: where it may strike, drawn by dice; ``sinks``: where it makes sense.

    ``own``: what it does to a server, so that the seed gets one of its own: ``broker`` or ``database``.
    ``past_timeout``: it waits for the transaction timeout, so that this is kept short. ``two_ways``: there is a rougher way,
    too (SIGKILL of a server instead of a stop, the end of a frozen driver instead of its waking).
    """

    name: str
    points: tuple[str, ...] = ("",)
    sinks: frozenset[Sink] = frozenset(Sink)
    own: str = ""
    past_timeout: bool = False
    two_ways: bool = False


_WITH_TOPIC = frozenset(sink for sink in Sink if sink.has_topic)
_WITH_DATABASE = frozenset(sink for sink in Sink if sink.database)

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *(Fault(name=f"kill-driver-{point}", points=(point,)) for point in DRIVER_POINTS),
        *(Fault(name=f"kill-worker-{point}", points=(point,)) for point in WORKER_POINTS),
        Fault(name="driver-frozen", points=OPEN_POINTS, sinks=_WITH_TOPIC, past_timeout=True),
        Fault(name="worker-frozen", points=OPEN_POINTS, sinks=_WITH_TOPIC, past_timeout=True),
        Fault(name="timed-out-after-decision", points=("after-decision",), sinks=_WITH_TOPIC, past_timeout=True),
        Fault(name="broker-restart", points=OPEN_POINTS, sinks=frozenset({Sink.TOPIC}), own="broker", two_ways=True),
        Fault(
            name="broker-away",
            points=OPEN_POINTS,
            sinks=frozenset({Sink.TOPIC}),
            own="broker",
            past_timeout=True,
            two_ways=True,
        ),
        Fault(name="database-restart", points=("after-decision",), sinks=_WITH_DATABASE, own="database", two_ways=True),
        Fault(name="checkpoint-copied", sinks=_WITH_TOPIC),
        Fault(name="checkpoint-deleted", points=(*DRIVER_POINTS[:-1], ""), sinks=_WITH_TOPIC),
        Fault(name="partitions-added", points=(*DRIVER_POINTS[:-1], "")),
        Fault(name="empty-batch"),
        Fault(name="large-record", sinks=_WITH_TOPIC),
        Fault(name="disk-full"),
        Fault(name="operator-abort", points=UNDECIDED_POINTS, two_ways=True),
        Fault(name="foreign-fence", points=("after-decision",), sinks=_WITH_TOPIC, two_ways=True),
        Fault(
            name="marker-expired",
            points=("after-decision", "after-commit"),
            sinks=frozenset({Sink.TOPIC}),
            own="broker",
            past_timeout=True,
        ),
    )
}
"""Every fault by name; docs/faults.md says what each does and what is expected of it."""

_HANDS = (
    (Sink.TOPIC, ("broker-restart", "broker-away")),
    (Sink.TOPIC, ("marker-expired",)),
    (Sink.TOPIC, ()),
    (Sink.TOPIC, ()),
    (Sink.TOPIC_AND_MYSQL, ("database-restart",)),
    (Sink.TOPIC_AND_MYSQL, ()),
    (Sink.TOPIC_AND_POSTGRES, ("database-restart",)),
    (Sink.TOPIC_AND_POSTGRES, ()),
    (Sink.COUNTS_IN_MYSQL, ()),
    (Sink.COUNTS_IN_MYSQL, ()),
)
"""What each of the ten seeds writes to, and the faults that go with a server of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault with its parameters. ``point``: the crash point; ``hard``: the rougher of two ways; ``records``: how many
    are produced under it."""

    fault: str
    point: str
    hard: bool
    records: int

    def __str__(self) -> str:
        at = f" at {self.point}" if self.point and not self.fault.endswith(self.point) else ""
        return f"{self.fault}{at}{' (hard)' if self.hard else ''}, {self.records} records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What one seed does, from the first record to the last."""

    seed: int
    sink: Sink
    partitions: int
    keys: int
    trigger_ms: int
    timeout_ms: int
    first_records: int
    strikes: tuple[Strike, ...] = field(default_factory=tuple)

    @property
    def owns(self) -> frozenset[str]:
        """Return the servers that the seed needs for itself: ``broker``, ``database``."""
        return frozenset(FAULTS[strike.fault].own for strike in self.strikes) - {""}

    def __str__(self) -> str:
        head = (
            f"seed {self.seed}: {self.sink.value}; {self.partitions} source partitions, {self.keys} keys, trigger "
            f"{self.trigger_ms} ms, transaction timeout {self.timeout_ms} ms, {self.first_records} records, then"
        )
        return "\n".join([head, *(f"  {number}. {strike}" for number, strike in enumerate(self.strikes, 1))])


SHORT_TIMEOUT_MS, LONG_TIMEOUT_MS = 30_000, 60_000
"""The short one still leaves the first batch of a starting driver its time where several Sparks share two cores."""


def schedule_of(seed: int, only: Sequence[str] = (), records: int | None = None) -> Schedule:
    """Return the schedule of a seed; with ``only`` these faults in this order instead of those dealt, and with ``records``
    so many under each.

    Raises ValueError for an unknown fault, or for faults that no one sink allows.
    """
    dice = random.Random(f"seed {seed}")
    sink, faults = _chosen(only, dice) if only else _dealt(seed)
    strikes = tuple(_drawn(FAULTS[name], dice) for name in faults)
    if records is not None:
        strikes = tuple(replace(strike, records=records) for strike in strikes)
    # With one slot no commit has a middle.
    slots = 2 if any(strike.point == "mid-commit" for strike in strikes) else 1
    return Schedule(
        seed=seed,
        sink=sink,
        partitions=dice.randint(slots, 3),
        keys=dice.randint(5, 40),
        trigger_ms=dice.choice((500, 1000)),
        timeout_ms=SHORT_TIMEOUT_MS if any(FAULTS[name].past_timeout for name in faults) else LONG_TIMEOUT_MS,
        first_records=dice.randint(200, 800),
        strikes=strikes,
    )


def _drawn(fault: Fault, dice: random.Random) -> Strike:
    return Strike(
        fault=fault.name,
        point=dice.choice(fault.points),
        hard=fault.two_ways and dice.random() < 0.5,
        records=dice.randint(100, 600),
    )


def _chosen(only: Sequence[str], dice: random.Random) -> tuple[Sink, list[str]]:
    unknown = [name for name in only if name not in FAULTS]
    if unknown:
        raise ValueError(f"no fault {unknown[0]!r}; there are: {', '.join(FAULTS)}")
    sinks = [sink for sink in Sink if all(sink in FAULTS[name].sinks for name in only)]
    if not sinks:
        raise ValueError(f"no sink takes all of {', '.join(only)}: give them in runs of their own")
    return dice.choice(sinks), list(only)


def _dealt(seed: int) -> tuple[Sink, list[str]]:
    """Return sink and faults of a seed, from the deal of the ten that it belongs to."""
    deal, place = divmod(seed - 1, SEEDS_OF_A_DEAL)
    dice = random.Random(f"deal {deal}")
    hands = [(sink, list(fixed)) for sink, fixed in dice.sample(_HANDS, len(_HANDS))]
    given = {name for _, fixed in hands for name in fixed}
    # Those that few sinks take go first; each to whom has least, so that no seed takes much longer than the others.
    rest = dice.sample(sorted(FAULTS.keys() - given), len(FAULTS) - len(given))
    for name in sorted(rest, key=lambda name: len(FAULTS[name].sinks)):
        takers = [hand for sink, hand in hands if sink in FAULTS[name].sinks]
        min(takers, key=_seconds).append(name)
    sink, faults = hands[place]
    return sink, dice.sample(faults, len(faults))


def _seconds(hand: Sequence[str]) -> float:
    """Return about how long a hand takes beyond its start, in restarts of a driver."""
    return sum(_cost(FAULTS[name]) for name in hand)


def _cost(fault: Fault) -> float:
    if fault.name in ("empty-batch", "large-record") or fault.name.removeprefix("kill-worker-") in TASK_POINTS:
        return 0.2
    return 1.0 + 0.8 * fault.past_timeout + 0.7 * (fault.name in ("driver-frozen", "checkpoint-copied"))
