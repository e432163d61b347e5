"""Seed -> schedule: which faults, in which order, with which parameters. Pure: the same seed gives the same schedule.

Ten seeds in a row that start at 1, 11, 21, … contain every fault at least once: the faults are dealt to them like cards, with
random numbers of the ten. Everything else comes from the seed's own random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.crash.catalogue import FAULTS, S3, TASK_POINTS, Fault, Own, Sink

SEEDS_OF_A_DEAL = 10
FAULTS_WITH_FILES = 4
"""Of a seed with files, besides one of its store."""

_HANDS = (
    (Sink.TOPIC, ("broker-restart", "broker-away", "random-broker")),
    (Sink.TOPIC, ("expired-after-crash", "expired-after-stop")),
    (Sink.TOPIC, ()),
    (Sink.TOPIC, ("broker-of-two-lost", "random-brokers")),
    (Sink.TOPIC_AND_MYSQL, ("database-restart", "random-database")),
    (Sink.TOPIC_AND_MYSQL, ("broker-of-two-lost",)),
    (Sink.TOPIC_AND_POSTGRES, ("database-restart", "random-database")),
    (Sink.TOPIC_AND_POSTGRES, ("expired-while-running",)),
    (Sink.COUNTS_IN_MYSQL, ()),
    (Sink.COUNTS_IN_MYSQL, ()),
)
"""The sink of each of the ten seeds, and the faults that need a server of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A signal at a random time, ``after_s`` after the end of the previous hit.

    ``kills``: SIGKILL, and a server starts again ``for_s`` later; otherwise SIGSTOP, and SIGCONT ``for_s`` later.
    ``which``: the first or the second of two brokers.
    """

    after_s: float
    kills: bool
    for_s: float
    which: int

    def __str__(self) -> str:
        return f"{'SIGKILL' if self.kills else 'SIGSTOP'} after {self.after_s:.2f} s for {self.for_s:.2f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault with its parameters. ``point``: the crash point; ``hard``: the harder of two variants; ``records``: how many
    records are produced during it; ``hits``: its signals in order."""

    fault: str
    point: str
    hard: bool
    records: int
    hits: tuple[Hit, ...] = ()

    def __str__(self) -> str:
        at = f" at {self.point}" if self.point and not self.fault.endswith(self.point) else ""
        hits = "".join(f", {hit}" for hit in self.hits)
        return f"{self.fault}{at}{' (hard)' if self.hard else ''}, {self.records} records{hits}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A seed's run, from the first record to the last.

    ``checkpoint_is_uri``: the checkpoint directory is a ``file://`` URI; ``trims_log``: the pipeline itself cuts its decision
    log every few seconds; ``min_isr``: min.insync.replicas of several brokers; ``on_cluster``: Spark's tasks run on executors,
    and the checkpoint directory is in an object store.
    """

    seed: int
    sink: Sink
    partitions: int
    keys: int
    trigger_ms: int
    timeout_ms: int
    first_records: int
    checkpoint_is_uri: bool
    trims_log: bool
    min_isr: int
    strikes: tuple[Strike, ...] = field(default_factory=tuple)
    on_cluster: bool = False
    files: str = ""
    """Where the sink's files are; empty: it has none."""

    @property
    def owns(self) -> frozenset[Own]:
        """Return the servers that the seed needs for itself."""
        return _owned(strike.fault for strike in self.strikes)

    @property
    def broker(self) -> Own | None:
        """Return the kind of the seed's own broker, or None for the shared broker."""
        if self.on_cluster:
            return Own.WHOLE_CLUSTER
        return next(iter(self.owns - {Own.DATABASE, Own.STORE}), None)

    def checkpoint_setting(self, directory: Path) -> str:
        """Return the pipeline's setting for a checkpoint directory on this machine: its path, or a URI."""
        return directory.as_uri() if self.checkpoint_is_uri else str(directory)

    def __str__(self) -> str:
        where = f" ({self.files})" if self.files else ""
        head = (
            f"seed {self.seed}: {self.sink.value}{where}; {self.partitions} source partitions, {self.keys} keys, trigger "
            f"{self.trigger_ms} ms, transaction timeout {self.timeout_ms} ms, {self.first_records} records, checkpoint as "
            f"{'URI' if self.checkpoint_is_uri else 'path'}{', decision log kept short' if self.trims_log else ''}"
            ", then"
        )
        if self.broker is not None:
            has_several = self.broker in (Own.CLUSTER, Own.WHOLE_CLUSTER)
            least = f" (min.insync.replicas {self.min_isr})" if has_several else ""
            head = f"{head.removesuffix(', then')}, {self.broker.value}{least}, then"
        return "\n".join([head, *(f"  {number}. {strike}" for number, strike in enumerate(self.strikes, 1))])


SHORT_TIMEOUT_MS, LONG_TIMEOUT_MS = 30_000, 60_000
"""Even the short timeout is enough for the first batch of a starting driver while several Sparks share two cores."""


def schedule_of(
    seed: int, only: Sequence[str] = (), records: int | None = None, *, on_cluster: bool = False, files: str = ""
) -> Schedule:
    """Return the schedule of a seed; ``only`` replaces its faults, in this order, and ``records`` sets the records per fault.

    ``files``: the sink is one of files, which are LOCAL or in S3.

    Raises ValueError for an unknown fault, or for faults without a common sink or another place to run.
    """
    dice = random.Random(f"seed {seed}")
    if only:
        sink, faults = _chosen(only, dice, on_cluster, files)
    elif files:
        sink, faults = _dealt_with_files(seed, files)
    else:
        sink, faults = _dealt_on_cluster(seed) if on_cluster else _dealt(seed)
    strikes = tuple(_drawn(FAULTS[name], dice) for name in faults)
    if records is not None:
        strikes = tuple(replace(strike, records=records) for strike in strikes)
    # A commit of a single slot has no middle.
    slots = 2 if any(strike.point == "mid-commit" for strike in strikes) else 1
    return Schedule(
        seed=seed,
        sink=sink,
        partitions=dice.randint(slots, 3),
        keys=dice.randint(5, 40),
        trigger_ms=dice.choice((500, 1000)),
        timeout_ms=SHORT_TIMEOUT_MS if any(FAULTS[name].past_timeout for name in faults) else LONG_TIMEOUT_MS,
        first_records=dice.randint(200, 800),
        checkpoint_is_uri=dice.random() < 0.5,
        trims_log=dice.random() < 0.5,
        min_isr=2 if on_cluster else dice.randint(1, 2),
        strikes=strikes,
        on_cluster=on_cluster,
        files=files,
    )


def _drawn(fault: Fault, dice: random.Random) -> Strike:
    return Strike(
        fault=fault.name,
        point=dice.choice(fault.points),
        hard=fault.two_ways and dice.random() < 0.5,
        records=dice.randint(100, 600),
        hits=_drawn_hits(fault.hits, dice),
    )


def _drawn_hits(hits: int, dice: random.Random) -> tuple[Hit, ...]:
    """Return hits with at least one kill and one freeze; the others are random."""
    kills = dice.sample([True, False, *(dice.random() < 0.5 for _ in range(hits - 2))], hits) if hits else []
    return tuple(
        Hit(
            # A driver's start takes some seconds, so a hit may meet its start, its recovery, a batch or a pause.
            after_s=round(dice.uniform(0, 15), 2),
            kills=kill,
            for_s=round(dice.uniform(0, 3 if dice.random() < 0.5 else 12), 2),
            which=dice.randrange(2),
        )
        for kill in kills
    )


def _chosen(only: Sequence[str], dice: random.Random, on_cluster: bool, files: str) -> tuple[Sink, list[str]]:
    unknown = [name for name in only if name not in FAULTS]
    if unknown:
        raise ValueError(f"unknown fault {unknown[0]!r}; the faults are: {', '.join(FAULTS)}")
    if files and (strange := [name for name in only if not FAULTS[name].goes_with_files(files)]):
        raise ValueError(f"{strange[0]} does not run with --files {files}")
    if not files and (strange := [name for name in only if FAULTS[name].own is Own.STORE]):
        raise ValueError(f"{strange[0]} runs only with --files {S3}")
    astray = [name for name in only if not files and not _goes(FAULTS[name], on_cluster)]
    if astray:
        raise ValueError(f"{astray[0]} {'does not run' if on_cluster else 'runs only'} with --cluster")
    sinks = [sink for sink in _sinks(bool(files)) if all(sink in FAULTS[name].sinks for name in only)]
    if not sinks:
        raise ValueError(f"no sink allows all of {', '.join(only)}: give them to separate runs")
    brokers = _owned(only) - {Own.DATABASE, Own.WHOLE_CLUSTER, Own.STORE}
    if len(brokers) > 1:
        needed = " and ".join(sorted(own.value for own in brokers))
        raise ValueError(f"{', '.join(only)} need {needed}: give them to separate runs")
    return dice.choice(sinks), list(only)


def _owned(faults: Iterable[str]) -> frozenset[Own]:
    return frozenset(own for name in faults if (own := FAULTS[name].own) is not None)


def _dealt(seed: int) -> tuple[Sink, list[str]]:
    """Return sink and faults of a seed, from the deal of its ten seeds."""
    deal, place = divmod(seed - 1, SEEDS_OF_A_DEAL)
    dice = random.Random(f"deal {deal}")
    hands = [(sink, list(fixed)) for sink, fixed in dice.sample(_HANDS, len(_HANDS))]
    given = {name for _, fixed in hands for name in fixed}
    # Faults with few sinks come first. Each goes to the seed with the least work, so that no seed takes much longer.
    others = [name for name, fault in FAULTS.items() if name not in given and _goes(fault, on_cluster=False)]
    rest = dice.sample(sorted(others), len(others))
    for name in sorted(rest, key=lambda name: len(FAULTS[name].sinks)):
        takers = [hand for sink, hand in hands if sink in FAULTS[name].sinks]
        min(takers, key=_seconds).append(name)
    sink, faults = hands[place]
    return sink, dice.sample(faults, len(faults))


def _dealt_on_cluster(seed: int) -> tuple[Sink, list[str]]:
    """Return sink and faults of a seed on the cluster: one of the cluster's own, which are dealt to ten seeds, and another."""
    deal, place = divmod(seed - 1, SEEDS_OF_A_DEAL)
    dice = random.Random(f"cluster's deal {deal}")
    own = sorted(name for name, fault in FAULTS.items() if fault.own is Own.WHOLE_CLUSTER)
    others = sorted(name for name, fault in FAULTS.items() if fault.goes_on_cluster and name not in own)
    first, second = dice.sample(own, len(own))[place], dice.sample(others, SEEDS_OF_A_DEAL)[place]
    sinks = [sink for sink in _sinks(False) if sink in FAULTS[first].sinks & FAULTS[second].sinks]
    dice = random.Random(f"seed {seed}")
    return dice.choice(sinks), dice.sample([first, second], 2)


def _dealt_with_files(seed: int, where: str) -> tuple[Sink, list[str]]:
    """Return sink and faults of a seed with files: in turns alone and with a topic; in a store one of the store's faults."""
    dice = random.Random(f"files in {where} {seed}")
    sink = (Sink.TOPIC_AND_FILES, Sink.FILES)[seed % 2]
    fit = sorted(name for name, fault in FAULTS.items() if sink in fault.sinks and fault.goes_with_files(where))
    of_store = [name for name in fit if FAULTS[name].own is Own.STORE]
    others = [name for name in fit if name not in of_store]
    faults = [*dice.sample(of_store, min(1, len(of_store))), *dice.sample(others, FAULTS_WITH_FILES)]
    return sink, dice.sample(faults, len(faults))


def _sinks(with_files: bool) -> list[Sink]:
    return [sink for sink in Sink if sink.has_files is with_files]


def _goes(fault: Fault, on_cluster: bool) -> bool:
    return fault.goes_on_cluster if on_cluster else fault.own not in (Own.WHOLE_CLUSTER, Own.STORE)


def _seconds(hand: Sequence[str]) -> float:
    """Return the approximate length of a seed's faults, in restarts of a driver."""
    return sum(_cost(FAULTS[name]) for name in hand)


def _cost(fault: Fault) -> float:
    if fault.name in ("empty-batch", "large-record") or fault.name.removeprefix("kill-worker-") in TASK_POINTS:
        return 0.2
    return (
        1.0
        + 0.8 * fault.past_timeout
        + 0.7 * (fault.name in ("driver-frozen", "checkpoint-copied", "broker-of-two-lost"))
        + 5.0 * (fault.own is Own.EXPIRING)
        + 0.8 * fault.hits
    )
