"""Open transactions that hold the offsets of their input, or may: what an abort loses, and who is known to be gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collector.records.application_ids import StreamsId
from collector.records.facts import HandleIdentity
from collector.records.formats.transaction_state import BrokerStatus
from collector.records.observations import BrokerRecord, IdExpired
from collector.state.fold import apply
from collector.state.state import State
from collector.state.transaction_join import views
from collector.verdicts.judging import EvaluationContext, judged
from collector.verdicts.read_process_write import (
    MIN_SILENT_MS,
    input_tie,
    is_streams,
    owner_in_group,
    owner_of_held,
    read_process_write_case,
)
from collector.verdicts.verdict_case import DecisionLogStatus, Limits
from lifecycle.offsets_topics import CONSUMER_OFFSETS
from lifecycle.verdicts import Assumption, Certainty, Judgement, Verdict
from resource_managers.kafka.group_members import GroupMembers, HeldOffsets
from tests.unit.collector.observations import T0, branch_listed, broker_record, database_handle, folded, only_view

STREAMS, CONNECT = "shop-6c2a-1", "connect-cluster-lake-orders-0"
OFFSETS = (f"{CONSUMER_OFFSETS}-7", "out-0")


def one(status: BrokerStatus, at: int, start: int, partitions: tuple[str, ...] = OFFSETS, **more: Any) -> BrokerRecord:
    return broker_record(status, at, **{"transaction": STREAMS, "start": start, "partitions": partitions, **more})


LIVES, LATE = (Assumption.OWNER_ENDS_IT,), (Assumption.LATE_IS_GONE,)
FOLLOW, REPLAYS = Assumption.OFFSETS_FOLLOW, Assumption.SOURCE_REPLAYS
COMMITTED = [one(BrokerStatus.ONGOING, 0, 0), one(BrokerStatus.COMPLETE_COMMIT, 2_000, 0)]
SHORT = [one(BrokerStatus.ONGOING, 0, 0), one(BrokerStatus.COMPLETE_COMMIT, 1_000, 0)]
COMMITTED_WITH_OFFSETS_OF_CONNECT = [
    one(BrokerStatus.ONGOING, 0, 0, ("out-0", "connect-offsets-24")),
    one(BrokerStatus.COMPLETE_COMMIT, 2_000, 0, ()),
]
OPEN, OPEN_BEFORE_OFFSETS = (
    one(BrokerStatus.ONGOING, 10_000, 10_000),
    one(BrokerStatus.ONGOING, 10_000, 10_000, ("out-0",)),
)


CONNECT_BY_ID = one(BrokerStatus.ONGOING, 0, 0, ("out-0",), transaction=CONNECT)


def judgement(
    seen: list[Any], at: int, group: GroupMembers | None = None, held: HeldOffsets | None = None
) -> Judgement:
    """Return the verdict of the one open transaction."""
    state = State()
    for observation in seen:
        apply(state, observation)
    if group is not None:
        state.groups[group.group] = group
    if held is not None:
        state.held_offsets[OFFSETS[0]] = held
    context = EvaluationContext(limits=Limits(), log_status=(DecisionLogStatus.ABSENT, ""), now_ms=T0 + at)
    (found,) = judged(context.cases(state, [view for view in views(state, settled=False) if view.is_running]))
    return found.judgement


@pytest.mark.parametrize(
    ("seen", "at", "verdict", "rule", "assumes"),
    [
        ([*COMMITTED, OPEN], 16_000, Verdict.IN_PROGRESS, 29, LIVES),
        ([*COMMITTED, OPEN], 16_001, Verdict.ABORT_IT, 28, LATE),
        ([*SHORT, OPEN], 15_000, Verdict.IN_PROGRESS, 29, LIVES),
        ([*SHORT, OPEN], 15_001, Verdict.ABORT_IT, 28, LATE),
        ([*COMMITTED, OPEN_BEFORE_OFFSETS], 16_100, Verdict.ABORT_IT, 28, (*LATE, FOLLOW)),
        ([OPEN], 40_000, Verdict.IN_PROGRESS, 29, LIVES),
        ([OPEN], 40_001, Verdict.ABORT_IT, 28, LATE),
        ([OPEN_BEFORE_OFFSETS], 41_000, Verdict.FOREIGN, 7, ()),
        ([*COMMITTED, IdExpired(transaction=STREAMS), OPEN_BEFORE_OFFSETS], 41_000, Verdict.FOREIGN, 7, ()),
        (
            [one(BrokerStatus.ONGOING, 0, 0, ("out-0",), transaction=CONNECT)],
            31_000,
            Verdict.ABORT_IT,
            28,
            (*LATE, FOLLOW, REPLAYS),
        ),
        (
            [one(BrokerStatus.ONGOING, 0, 0, ("out-0", "connect-offsets-1"))],
            31_000,
            Verdict.ABORT_IT,
            28,
            (*LATE, REPLAYS),
        ),
        ([one(BrokerStatus.ONGOING, 0, 0, transaction="pipeline-0-1")], 31_000, Verdict.FOREIGN, 7, ()),
        ([*COMMITTED_WITH_OFFSETS_OF_CONNECT, OPEN_BEFORE_OFFSETS], 15_900, Verdict.IN_PROGRESS, 29, LIVES),
        ([*COMMITTED_WITH_OFFSETS_OF_CONNECT, OPEN_BEFORE_OFFSETS], 16_100, Verdict.ABORT_IT, 28, (*LATE, FOLLOW)),
    ],
    ids=[
        "within 3 of its longest",
        "longer than 3 of its longest",
        "its longest is short, young",
        "its longest is short, old",
        "its offsets are yet to come",
        "none committed yet, young",
        "none committed yet, old",
        "no offsets seen",
        "its id was forgotten since",
        "a task of Connect by its id",
        "a task of Connect by its offsets",
        "an id of our form, of another decision log perhaps",
        "workers with another group, young",
        "workers with another group, old",
    ],
)
def test_case(seen: list[Any], at: int, verdict: Verdict, rule: int, assumes: tuple[Assumption, ...]) -> None:
    found = judgement(seen, at)
    assert (found.verdict, found.rule, found.assumes) == (verdict, rule, assumes)
    assert found.may_abort is (verdict is not Verdict.IN_PROGRESS)
    may_lose = verdict is Verdict.FOREIGN or FOLLOW in assumes or REPLAYS in assumes
    assert found.loses_data is may_lose, "an abort that may lose rows takes a typed confirmation"
    assert not found.may_commit


def left(name: str = "shop", **changes: Any) -> GroupMembers:
    fields = {"group": name, "state": "Empty", "client_ids": frozenset(), "at_ms": T0, **changes}
    return GroupMembers(**fields)


def held(*groups: GroupMembers, quiet_ms: int = MIN_SILENT_MS, **changes: Any) -> HeldOffsets:
    fields = {"producers": frozenset({(7, 4)}), "groups": groups, "written": frozenset(), "since_ms": T0 + 1, **changes}
    return HeldOffsets(at_ms=fields["since_ms"] + quiet_ms, **fields)


PROCESS, OTHER_PROCESS = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab", "0d7e1f0a-91b4-4a55-8f0e-0123456789ab"
ID = f"shop-{PROCESS}-1"


def member(process: str = PROCESS, thread: int = 1) -> str:
    return f"shop-{process}-StreamThread-{thread}-consumer"


def group(*client_ids: str, state: str = "Stable", at: int = 13_000, is_simple: bool = False) -> GroupMembers:
    ids = frozenset(client_ids)
    return GroupMembers(group="shop", state=state, client_ids=ids, at_ms=T0 + at, is_simple=is_simple)


@pytest.mark.parametrize(
    ("asked", "id_", "lives"),
    [
        (None, ID, None),
        (group(state="Empty"), ID, False),
        (group(state="Empty", at=12_001), ID, False),
        (group(state="Empty", at=12_000), ID, None),
        (group(state="Dead"), ID, None),
        (group(state="Dead"), "shop-0_3", None),
        (group(member()), ID, True),
        (group(member(), state="PreparingRebalance"), ID, True),
        (group(member(OTHER_PROCESS)), ID, False),
        (group(member(OTHER_PROCESS), member()), ID, True),
        (group(member(thread=12)), ID, False),
        (group(member(thread=12)), f"shop-{PROCESS}", True),
        (group("my-client-StreamThread-1-consumer"), ID, None),
        (group(member(OTHER_PROCESS), "my-client"), ID, None),
        (group(member(OTHER_PROCESS)), "shop-0_3", True),
        (group(state="Empty"), "shop-0_3", False),
    ],
    ids=[
        "not asked",
        "no members",
        "asked late enough to tell",
        "asked too soon to tell",
        "unknown to its coordinator, or of another protocol",
        "the same of a task",
        "its thread is a member",
        "its thread is a member while the group rebalances",
        "another process alone",
        "its thread among others",
        "another thread of its process: its own was replaced",
        "an id without a thread",
        "client ids of its own",
        "some client ids tell nothing",
        "one producer a task: whoever has the task",
        "one producer a task, and no one is there",
    ],
)
def test_what_its_group_says_of_an_owner(asked: GroupMembers | None, id_: str, lives: bool | None) -> None:
    streams = StreamsId.parse(id_)
    assert streams is not None
    owner = owner_in_group(streams, asked, T0 + 10_000)
    if lives is None or asked is None:
        assert owner is None
        return
    assert owner is not None
    assert (owner.lives, owner.at_ms, owner.is_proven) == (lives, asked.at_ms, False)
    assert owner.fact, "what tells it is said"


@pytest.mark.parametrize(
    ("asked", "at", "verdict", "rule"),
    [
        (group(state="Empty"), 13_100, Verdict.ABORT_IT, 33),
        (group(member(OTHER_PROCESS)), 13_100, Verdict.ABORT_IT, 33),
        (group(member()), 13_100, Verdict.IN_PROGRESS, 29),
        (group(member()), 41_000, Verdict.IN_PROGRESS, 29),
        (group("my-client"), 41_000, Verdict.ABORT_IT, 28),
        (group(state="Empty", is_simple=True), 13_100, Verdict.IN_PROGRESS, 29),
        (group(state="Empty", is_simple=True), 41_000, Verdict.ABORT_IT, 28),
        (group(state="Dead"), 13_100, Verdict.IN_PROGRESS, 29),
    ],
    ids=[
        "no members",
        "another process",
        "it lives",
        "it lives and is late",
        "its clients tell nothing, and it is silent",
        "a group that never had members",
        "so it is, and its owner is silent",
        "nothing is known",
    ],
)
def test_a_group_without_its_owner_makes_it_abort_at_once(
    asked: GroupMembers, at: int, verdict: Verdict, rule: int
) -> None:
    opened = one(BrokerStatus.ONGOING, 10_000, 10_000, ("shop-counts-changelog-0",), transaction=ID)
    found = judgement([opened], at, asked)
    assert (found.verdict, found.rule, found.may_abort) == (verdict, rule, verdict is Verdict.ABORT_IT)
    assert found.certainty is Certainty.LIKELY, "names are no proof"
    assert rule != 33 or found.assumes == (Assumption.STREAMS_BY_NAME, FOLLOW)
    assert found.loses_data is (verdict is Verdict.ABORT_IT), "it holds no offsets yet"
    facts = [evidence.fact for evidence in found.evidence]
    assert any("an abort unblocks the restore" in fact for fact in facts) is (verdict is Verdict.ABORT_IT)


@pytest.mark.parametrize(("at", "is_late"), [(40_000, False), (40_001, True)])
def test_an_owner_that_is_there_is_said_to_be_late_once_it_is(at: int, is_late: bool) -> None:
    found = judgement([one(BrokerStatus.ONGOING, 10_000, 10_000, transaction=ID)], at, group(member()))
    assert (found.verdict, found.rule, found.assumes) == (Verdict.IN_PROGRESS, 29, LIVES)
    assert (
        any("longer than usual (30 s). Its owner is there" in evidence.fact for evidence in found.evidence) is is_late
    )


def test_a_group_proves_nothing_of_who_holds_no_offsets() -> None:
    found = judgement(
        [one(BrokerStatus.ONGOING, 10_000, 10_000, ("out-0",), transaction=ID)], 13_100, group(state="Empty")
    )
    assert (found.verdict, found.rule) == (Verdict.FOREIGN, 7)


@pytest.mark.parametrize(
    ("partition", "verdict"),
    [
        ("shop-counts-changelog-0", Verdict.ABORT_IT),
        ("shop-by-user-repartition-11", Verdict.ABORT_IT),
        ("other-counts-changelog-0", Verdict.FOREIGN),
        ("shop-changelog-reports-0", Verdict.FOREIGN),
    ],
)
def test_a_topic_that_streams_keeps_for_itself_shows_what_wrote(partition: str, verdict: Verdict) -> None:
    opened = one(BrokerStatus.ONGOING, 10_000, 10_000, (partition,), transaction=ID)
    assert judgement([opened], 13_100, group(state="Empty")).verdict is verdict


@pytest.mark.parametrize(
    ("id_", "partitions", "assumes"),
    [
        ("any-program", ("out-0", f"{CONSUMER_OFFSETS}-7"), ()),
        (ID, ("shop-counts-changelog-0",), (FOLLOW,)),
        (ID, ("shop-counts-changelog-0", f"{CONSUMER_OFFSETS}-7"), ()),
        ("any-program", ("connect-offsets-1",), (REPLAYS,)),
        (CONNECT, ("out-0",), (FOLLOW, REPLAYS)),
        (ID, ("out-0",), None),
        (STREAMS, ("out-0",), None),
        ("shop", ("shop-counts-changelog-0",), None),
    ],
    ids=[
        "its own offsets",
        "a changelog of Kafka Streams",
        "a changelog and offsets",
        "a Connect source's offsets",
        "a Connect source task by its id",
        "the form of an id alone",
        "offsets of earlier ones of its id",
        "an id that is not of Kafka Streams",
    ],
)
def test_what_ties_it_to_its_input_is_read_of_this_very_transaction(
    id_: str, partitions: tuple[str, ...], assumes: tuple[Assumption, ...] | None
) -> None:
    found = input_tie(folded(*COMMITTED), id_, partitions)
    assert (found.assumes if found is not None else None) == assumes


OPEN_7_4 = one(BrokerStatus.ONGOING, 10_000, 10_000, producer_id=7, epoch=4)


@pytest.mark.parametrize(
    ("asked", "rule", "certainty"),
    [
        (held(left()), 33, Certainty.CERTAIN),
        (held(left("any name")), 33, Certainty.CERTAIN),
        (held(left(), left("another")), 33, Certainty.CERTAIN),
        (held(left(), quiet_ms=MIN_SILENT_MS - 1), 29, Certainty.LIKELY),
        (held(left(is_simple=True)), 29, Certainty.LIKELY),
        (held(left(state="Dead")), 29, Certainty.LIKELY),
        (held(left(), left("another", state="Stable", client_ids=frozenset({"c"}))), 29, Certainty.LIKELY),
        (held(), 29, Certainty.LIKELY),
        (held(left(), producers=frozenset({(7, 4), (8, 0)})), 29, Certainty.LIKELY),
        (held(left(), producers=frozenset({(7, 5)})), 29, Certainty.LIKELY),
        (held(left(), producers=frozenset()), 29, Certainty.LIKELY),
    ],
    ids=[
        "its group was left",
        "whatever its name",
        "both groups were left",
        "not for long enough",
        "a group that never had members: its owner assigns itself partitions",
        "a group of another protocol",
        "one of its groups has members",
        "no group has offsets that are held",
        "another transaction is open there: whose offsets they are is not known",
        "its producer has a newer epoch",
        "it is not open there",
    ],
)
def test_an_owner_is_gone_once_the_group_whose_offsets_it_holds_was_left(
    asked: HeldOffsets, rule: int, certainty: Certainty
) -> None:
    found = judgement([OPEN_7_4], 16_000, held=asked)
    assert (found.rule, found.certainty) == (rule, certainty)
    assert not found.loses_data


def test_a_group_that_an_id_names_says_nothing_where_it_holds_the_offsets_of_another() -> None:
    opened = replace(OPEN_7_4, transaction=ID)
    others = held(left("orders-v2", state="Stable", client_ids=frozenset({"consumer-orders-v2-1"})))
    found = judgement([opened], 16_000, group(state="Empty", at=15_000), others)
    assert (found.verdict, found.rule) == (Verdict.IN_PROGRESS, 29)
    late = judgement([opened], 41_000, group(state="Empty", at=15_000), others)
    assert (late.verdict, late.rule, late.assumes) == (Verdict.ABORT_IT, 28, LATE)
    assert any("it holds the offsets of consumer group orders-v2" in each.fact for each in late.rests_on)
    unasked = judgement([opened], 16_000, group(state="Empty", at=15_000))
    assert (unasked.verdict, unasked.rule) == (Verdict.IN_PROGRESS, 29), "whose offsets it holds is not known"


@pytest.mark.parametrize(
    ("clients", "lives", "is_proven"),
    [
        ((member(OTHER_PROCESS),), False, True),
        ((member(),), True, True),
        ((member(OTHER_PROCESS), member()), True, True),
        ((member(OTHER_PROCESS), "my-client"), None, False),
        (("my-client",), None, False),
        ((), None, False),
    ],
)
def test_of_kafka_streams_other_processes_show_that_its_own_is_gone(
    clients: tuple[str, ...], lives: bool | None, is_proven: bool
) -> None:
    asked = held(left(state="Stable" if clients else "Dead", client_ids=frozenset(clients)))
    found = owner_of_held(HandleIdentity(ID, 7, 4), [asked], StreamsId.parse(ID))
    assert found is not None
    assert (found.lives, found.is_proven) == (lives, is_proven)
    for id_ in ("any-program", "shop-0_3"):
        other = owner_of_held(HandleIdentity(id_, 7, 4), [asked], StreamsId.parse(id_))
        assert other is not None
        assert other.lives is None, "a thread's name says nothing of another program, nor of a task"


def test_what_it_holds_of_several_groups_is_known_once_all_of_it_is() -> None:
    mine, thread = HandleIdentity(ID, 7, 4), left(state="Stable", client_ids=frozenset({member()}))
    both = owner_of_held(mine, [held(thread), held(left("another"))], StreamsId.parse(ID))
    assert both is not None
    assert both.lives is True
    assert owner_of_held(mine, [held(left()), held(left("another"), producers=frozenset())], None) is None
    for late in (held(left("another"), since_ms=T0 + 2, quiet_ms=MIN_SILENT_MS - 1), held(left("another"), quiet_ms=0)):
        found = owner_of_held(mine, [held(left()), late], None)
        assert found is not None
        assert found.lives is None, "the last answer counts"


def test_every_partition_of_offsets_that_it_holds_must_be_answered_for() -> None:
    two = one(BrokerStatus.ONGOING, 10_000, 10_000, (*OFFSETS, f"{CONSUMER_OFFSETS}-8"), producer_id=7, epoch=4)
    assert judgement([two], 16_000, held=held(left())).rule == 29


def test_an_abort_names_the_changelog_whose_restore_it_unblocks() -> None:
    held = ("shop-counts-changelog-0", "shop-by-user-repartition-0", "out-0")
    opened = one(BrokerStatus.ONGOING, 10_000, 10_000, held, transaction=ID)
    facts = [evidence.fact for evidence in judgement([opened], 13_100, group(state="Empty")).evidence]
    assert any("an abort unblocks the restore from shop-counts-changelog-0:" in fact for fact in facts)


def test_the_workers_own_producer_of_connect_writes_no_source_offsets() -> None:
    found = judgement(
        [one(BrokerStatus.ONGOING, 0, 0, ("connect-configs-0",), transaction="connect-cluster-eu")], 41_000
    )
    assert (found.verdict, found.rule) == (Verdict.FOREIGN, 7)


def test_only_an_open_transaction_of_a_coordinator_is_a_case() -> None:
    opened = only_view(OPEN)
    ended = only_view(OPEN, one(BrokerStatus.COMPLETE_COMMIT, 11_000, 10_000))
    of_a_database = replace(only_view(branch_listed(database_handle())), transaction=CONNECT)
    assert of_a_database.is_running
    cases = [
        read_process_write_case(State(), view, driver_silent_ms=30_000, now_ms=T0 + 10_500)
        for view in (opened, ended, of_a_database)
    ]
    assert [case is not None for case in cases] == [True, False, False]
    assert cases[0] is not None
    assert (cases[0].open_ms, cases[0].at_ms, cases[0].silent_after_ms) == (500, T0 + 10_000, 30_000)


def test_an_owner_that_is_there_is_said_to_be_there() -> None:
    late = judgement([one(BrokerStatus.ONGOING, 10_000, 10_000, transaction=ID)], 41_000, group(member()))
    assert "longer than usual" in late.evidence[1].fact
    assert "is a member of its consumer group" in late.evidence[2].fact
    assert not late.may_abort
    young = judgement([one(BrokerStatus.ONGOING, 10_000, 10_000, transaction=ID)], 13_100, group(member()))
    assert "open for less than" in young.evidence[1].fact


@pytest.mark.parametrize(
    ("id_", "partition", "asked", "is_its"),
    [
        (ID, "shop-counts-changelog-0", None, True),
        (ID, "out-0", None, False),
        (ID, "out-0", group(member(OTHER_PROCESS)), True),
        (ID, "out-0", group("my-client", member(OTHER_PROCESS)), True),
        (ID, "out-0", group("my-client"), False),
        (ID, "out-0", group(state="Empty"), False),
        ("shop-0_3", "out-0", group(member()), True),
    ],
)
def test_more_than_an_id_s_form_shows_that_it_is_of_streams(
    id_: str, partition: str, asked: GroupMembers | None, is_its: bool
) -> None:
    state = State()
    if asked is not None:
        state.groups[asked.group] = asked
    streams = StreamsId.parse(id_)
    assert streams is not None
    assert is_streams(state, streams, (partition,)) is is_its
