"""Random histories of one or two applications of Flink, and what a collector is told of them at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.flink_job_facts import FlinkJobFacts
from indoubt.collector.records.formats.flink_records import FlinkStatus
from indoubt.collector.verdicts import flink_commits
from indoubt.collector.verdicts.flink_cases import flink_case
from indoubt.lifecycle.resource_manager_kinds import MYSQL, POSTGRES
from indoubt.lifecycle.verdicts import Judgement
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observations import T0
from tests.unit.collector.verdicts.flink_model.applications import LISTS, OUTCOMES, Application
from tests.unit.collector.verdicts.flink_model.sinks import JdbcSink, KafkaSink, Sink
from tests.unit.collector.verdicts.flink_model.world import Held, World

OVERDUE_MS, SILENT_MS = 2_000, 30_000
OTHER_CLUSTER = "us"
Step = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """``beside``: a second application, under the prefix or the name of the first by mistake, or both, or apart from it.

    Or the same one ``elsewhere``, in another Kafka cluster, where producer ids and epochs are equal. ``stated``: what the
    settings say of where jobs write. ``shared``: two Flink clusters over one directory, the second application in the other one.
    ``databases``: sinks beside those in Kafka. ``rest``: at the end it answers, is away for long, or was never asked.
    ``watched``: REST was asked after each step, and every list was read. ``store``: the clusters have a high-availability store,
    which is read at the end.
    """

    pooled: bool = False
    subtasks: int = 1
    beside: str = ""
    databases: tuple[str, ...] = ()
    rest: str = "answers"
    watched: bool = False
    stated: bool | None = None
    shared: bool = False
    store: bool = False


BESIDE = {
    "apart": ("refunds", "refunds"),
    "same prefix": ("refunds", "orders"),
    "same name": ("orders", "refunds"),
    "twice": ("orders", "orders"),
    "elsewhere": ("refunds", "orders"),
}
"""The second application's name and prefix."""
DATABASES = ((), (POSTGRES.name,), (MYSQL.name,), (POSTGRES.name, MYSQL.name))
RESTS = ("answers", "away", "not asked")
SETTINGS = st.builds(
    Setting,
    pooled=st.booleans(),
    subtasks=st.integers(1, 2),
    beside=st.sampled_from(("", "", *BESIDE)),
    databases=st.sampled_from(DATABASES),
    rest=st.sampled_from(RESTS),
    watched=st.booleans(),
    stated=st.sampled_from((None, None, True, False)),
    shared=st.booleans(),
    store=st.booleans(),
)
OF_APPLICATION = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(OUTCOMES), st.sampled_from(LISTS)),
    st.tuples(st.just("write"), st.sampled_from(OUTCOMES), st.just("read")),
    st.tuples(st.just("restore"), st.integers(0, 3), st.booleans()),
    st.tuples(st.sampled_from(["fail over", "writers start"])),
    st.tuples(st.just("restore as"), st.integers(0, 3), st.booleans(), st.sampled_from(("", "orders-v2"))),
)
BY_SECOND = st.tuples(st.just("beside"), OF_APPLICATION)
BY_COPY = st.tuples(st.just("by copy"), OF_APPLICATION)
OF_WORLD = st.one_of(
    st.tuples(st.sampled_from(["time out", "poll"])),
    st.tuples(st.just("commit by hand"), st.integers(0, 3)),
    st.tuples(st.just("copy"), st.integers(0, 3), st.booleans(), st.booleans()),
)
HISTORIES = st.lists(st.one_of(OF_APPLICATION, OF_APPLICATION, BY_SECOND, BY_COPY, OF_WORLD), min_size=1, max_size=15)


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened, once it is over."""

    setting: Setting
    world: World
    applications: tuple[Application, ...]
    copies: list[Application] = field(default_factory=list)
    """Of the first application, started beside it for a test: none, or one."""

    @property
    def every(self) -> tuple[Application, ...]:
        return (*self.applications, *self.copies)

    def of(self, held: Held) -> Application:
        return next(each for each in self.every if each.key == held.owner)

    @property
    def is_mistake_told(self) -> bool:
        """Say whether a collector can know of each job whether it uses the prefix of another one, where two do."""
        if self.setting.beside not in ("same prefix", "twice"):
            return True
        flink = self.world.flink
        known = [flink.jobs.get(job) for each in self.every for job in each.jobs]
        return all(facts is not None and _is_told(flink, facts) for facts in known)

    @property
    def is_every_job_told(self) -> bool:
        """Say whether REST told of each job at least once: of another one a collector cannot know what it set back."""
        return all(job in self.world.flink.jobs for each in self.every for job in each.jobs)

    def judged(self, view: TransactionView) -> Judgement | None:
        """Return what the rules of Flink's transactions say of one that is open."""
        world = self.world
        found = flink_case(
            world.flink, view, commit_overdue_ms=OVERDUE_MS, driver_silent_ms=SILENT_MS, now_ms=T0 + world.at
        )
        return flink_commits.judge(found) if found is not None else None


def history(steps: list[Step], setting: Setting) -> History:
    """Return the applications after these steps."""
    world = World()
    # That jobs write to this Kafka cluster only is stated where it is true.
    is_told = setting.stated is not None and not (setting.stated and setting.beside == "elsewhere")
    if is_told and not any(step[0] == "copy" and step[3] for step in steps):
        world.flink.writes_here = {cluster: bool(setting.stated) for cluster in (CLUSTER, OTHER_CLUSTER)}
    names = [("orders", "orders"), *([BESIDE[setting.beside]] if setting.beside else [])]
    applications = tuple(_application(world, f"{n}", name, prefix, setting) for n, (name, prefix) in enumerate(names))
    found = History(setting=setting, world=world, applications=applications)
    for step in steps:
        _go(found, step)
        if setting.watched:
            _poll(found, 3_000)
    if setting.rest == "not asked":
        _poll(found, 3_000)
        world.flink.polled_ms.clear()
        world.flink.answered.clear()
    else:
        _poll(found, 3_000)
    if setting.store:
        for each in found.every:
            each.show_store()
    world.at += 5_000
    if setting.rest == "away":
        for cluster in (CLUSTER, OTHER_CLUSTER):
            world.flink.see_polled(cluster, T0 + world.at, answered=False)
        world.at += SILENT_MS + 1_000
    return found


def _is_told(flink: FlinkState, facts: FlinkJobFacts) -> bool:
    completed = (seen.status is FlinkStatus.COMPLETED for seen in facts.checkpoints.values())
    return flink.lists.names_prefix(facts, "orders") is True or any(completed)


def _application(world: World, key: str, name: str, prefix: str, setting: Setting) -> Application:
    # The second one has a subtask less or more, so that its ids are not all of the first one's.
    subtasks = setting.subtasks if key == "0" else 3 - setting.subtasks
    is_elsewhere = key != "0" and setting.beside == "elsewhere"
    kafka: Sink = KafkaSink(
        world=world.other_kafka() if is_elsewhere else world,
        owner=key,
        prefix=prefix,
        subtasks=setting.subtasks if is_elsewhere else subtasks,
        is_pooled=setting.pooled,
    )
    others = [JdbcSink(world=world, owner=key, resource_manager=each, subtasks=subtasks) for each in setting.databases]
    clusters = (CLUSTER, OTHER_CLUSTER) if setting.shared else (CLUSTER,)
    in_order = clusters if key == "0" else clusters[::-1]
    return Application(
        world=world, key=key, name=name, sinks=[kafka, *others], clusters=in_order, has_store=setting.store
    )


def _go(found: History, step: Step) -> None:
    world = found.world
    match step:
        case "beside", inner:
            if len(found.applications) > 1:
                _of_application(found.applications[1], inner, found.setting)
        case "by copy", inner:
            for each in found.copies:
                _of_application(each, inner, found.setting)
        case "copy", steps_back, copied, elsewhere:
            made = found.applications[0].copy("c", "orders-debug", steps_back, copied=copied, elsewhere=elsewhere)
            if made is not None and not found.copies:
                found.copies.append(made)
        case ("time out",):
            world.at += 60_000
            current = [held for each in found.every for sink in each.sinks for held in sink.current]
            world.end([held for held in world.transactions if held not in current], is_commit=False)
        case ("poll",):
            _poll(found, 3_000)
        case "commit by hand", n:
            _poll(found, 3_000)
            offered = [held for held in world.left if held.ended is None and _is_offered(found, held.as_open)]
            if offered:
                world.commit_by_hand(offered[n % len(offered)])
        case _:
            _of_application(found.applications[0], step, found.setting)


def _is_offered(found: History, view: TransactionView) -> bool:
    judgement = found.judged(view)
    return judgement is not None and judgement.may_commit


def _of_application(application: Application, step: Step, setting: Setting) -> None:
    match step:
        case "write", outcome, listing:
            application.write(outcome, "read" if setting.watched else listing)
        case "restore", steps_back, from_nothing:
            application.restore(steps_back, from_nothing=from_nothing)
        case "restore as", steps_back, copied, name:
            application.restore(steps_back, copied=copied, name=name)
        case ("fail over",):
            application.fail_over()
        case ("writers start",):
            application.start_writers()


def _poll(found: History, later: int) -> None:
    found.world.at += later
    for each in found.every:
        each.poll()
    found.world.see_databases()
