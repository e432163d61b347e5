"""Open transactions that hold the offsets of their input, or may: what an abort loses, and who is known to be gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.application_ids import StreamsId
from indoubt.collector.records.facts import HandleIdentity
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BrokerRecord, IdExpired
from indoubt.collector.verdicts.judging import EvaluationContext, judged
from indoubt.collector.verdicts.read_process_write import (
    MIN_SILENT_MS,
    input_tie,
    is_streams,
    owner_in_group,
    owner_of_held,
    read_process_write_case,
)
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.lifecycle.verdicts import Assumption, Judgement
from indoubt.resource_managers.kafka.group_members import GroupMembers, HeldOffsets
from tests.unit.collector.observations import T0, branch_listed, broker_record, database_handle, folded, only_view
from tests.unit.collector.verdicts.case_tables import table, told

STREAMS, CONNECT = "shop-6c2a-1", "connect-cluster-lake-orders-0"
PROCESS, OTHER_PROCESS = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab", "0d7e1f0a-91b4-4a55-8f0e-0123456789ab"
ID = f"shop-{PROCESS}-1"
CHANGELOG, OFFSETS = "shop-counts-changelog-0", f"{CONSUMER_OFFSETS}-7"


def one(status: BrokerStatus, at: int, start: int, *partitions: str, **more: Any) -> BrokerRecord:
    """Return a record of a transaction of Kafka Streams, which holds offsets of its input unless it holds other partitions."""
    held = partitions or (OFFSETS, "out-0")
    return broker_record(status, at, **{"transaction": STREAMS, "start": start, "partitions": held, **more})


def begun(*partitions: str, at: int = 10_000, **more: Any) -> BrokerRecord:
    return one(BrokerStatus.ONGOING, at, at, *partitions, **more)


def ended(at: int, *partitions: str) -> list[BrokerRecord]:
    """Return one of the same id that began at 0 and was committed then."""
    return [one(BrokerStatus.ONGOING, 0, 0, *partitions), one(BrokerStatus.COMPLETE_COMMIT, at, 0, *partitions)]


def member(process: str = PROCESS, thread: int = 1) -> str:
    return f"shop-{process}-StreamThread-{thread}-consumer"


def group(*client_ids: str, state: str = "Stable", at: int = 13_000, is_simple: bool = False) -> GroupMembers:
    """Return what its coordinator said of the consumer group ``shop``."""
    ids = frozenset(client_ids)
    return GroupMembers(group="shop", state=state, client_ids=ids, at_ms=T0 + at, is_simple=is_simple)


def left(name: str = "shop", **changes: Any) -> GroupMembers:
    fields = {"group": name, "state": "Empty", "client_ids": frozenset(), "at_ms": T0, **changes}
    return GroupMembers(**fields)


def held(*groups: GroupMembers, quiet_ms: int = MIN_SILENT_MS, **changes: Any) -> HeldOffsets:
    """Return whose offsets the producer 7 with epoch 4 holds in its partition of offsets, since when nothing was heard of them."""
    fields = {"producers": frozenset({(7, 4)}), "groups": groups, "written": frozenset(), "since_ms": T0 + 1, **changes}
    return HeldOffsets(at_ms=fields["since_ms"] + quiet_ms, **fields)


def judgement(given: list[Any], at: int) -> Judgement:
    """Return the verdict of the one open transaction, ``at`` ms after T0."""
    state = State()
    for each in given:
        if isinstance(each, GroupMembers):
            state.groups[each.group] = each
        elif isinstance(each, HeldOffsets):
            state.held_offsets[OFFSETS] = each
        else:
            apply(state, each)
    context = EvaluationContext(limits=Limits(), log_status=(DecisionLogStatus.ABSENT, ""), now_ms=T0 + at)
    (found,) = judged(context.cases(state, [view for view in views(state, settled=False) if view.is_running]))
    return found.judgement


LIVES, LATE, FOLLOW, REPLAYS, BY_NAME = (
    Assumption.OWNER_ENDS_IT,
    Assumption.LATE_IS_GONE,
    Assumption.OFFSETS_FOLLOW,
    Assumption.SOURCE_REPLAYS,
    Assumption.STREAMS_BY_NAME,
)
GOES_ON, FOREIGN = "in progress, likely: no offer", "foreign, guess: typed abort"
ABORT, LIKELY_ABORT, MAY_LOSE = "abort it, certain: abort", "abort it, likely: abort", "abort it, likely: typed abort"
COMMITTED, SHORT, WITH_OFFSETS_OF_CONNECT = ended(2_000), ended(1_000), ended(2_000, "out-0", "connect-offsets-24")
OPEN, BEFORE_OFFSETS = begun(), begun("out-0")
BY_NAME_OPEN, BY_NAME_HOLDS = begun(CHANGELOG, transaction=ID), begun(transaction=ID)
OPEN_7_4 = begun(producer_id=7, epoch=4)
TWO_OF_OFFSETS = begun(OFFSETS, "out-0", f"{CONSUMER_OFFSETS}-8", producer_id=7, epoch=4)
EMPTY, OTHERS = group(state="Empty"), group(member(OTHER_PROCESS))
OPEN_OF_ID, EMPTY_LATER = replace(OPEN_7_4, transaction=ID), group(state="Empty", at=15_000)
OF_ANOTHER = held(left("orders-v2", state="Stable", client_ids=frozenset({"consumer-orders-v2-1"})))

CASES = [
    # name; what was seen of transactions and groups; ms after T0; the rule, and what it says; what that assumes
    ("within 3 of its longest", [*COMMITTED, OPEN], 16_000, 29, GOES_ON, (LIVES,)),
    ("longer than 3 of its longest", [*COMMITTED, OPEN], 16_001, 28, LIKELY_ABORT, (LATE,)),
    ("its longest is short, young", [*SHORT, OPEN], 15_000, 29, GOES_ON, (LIVES,)),
    ("its longest is short, old", [*SHORT, OPEN], 15_001, 28, LIKELY_ABORT, (LATE,)),
    ("its offsets are yet to come", [*COMMITTED, BEFORE_OFFSETS], 16_100, 28, MAY_LOSE, (LATE, FOLLOW)),
    ("none committed yet, young", [OPEN], 40_000, 29, GOES_ON, (LIVES,)),
    ("none committed yet, old", [OPEN], 40_001, 28, LIKELY_ABORT, (LATE,)),
    ("no offsets seen", [BEFORE_OFFSETS], 41_000, 7, FOREIGN, ()),
    ("its id was forgotten since", [*COMMITTED, IdExpired(transaction=STREAMS), BEFORE_OFFSETS], 41_000, 7, FOREIGN, ()),
    ("a task of Connect by its id", [begun("out-0", at=0, transaction=CONNECT)], 31_000, 28, MAY_LOSE, (LATE, FOLLOW, REPLAYS)),
    ("a task of Connect by its offsets", [begun("out-0", "connect-offsets-1", at=0)], 31_000, 28, MAY_LOSE, (LATE, REPLAYS)),
    ("a worker of Connect itself", [begun("connect-configs-0", at=0, transaction="connect-cluster-eu")], 41_000, 7, FOREIGN, ()),
    ("an id of our form, of another decision log perhaps", [begun(at=0, transaction="pipeline-0-1")], 31_000, 7, FOREIGN, ()),
    ("workers with another group, young", [*WITH_OFFSETS_OF_CONNECT, BEFORE_OFFSETS], 15_900, 29, GOES_ON, (LIVES,)),
    ("workers with another group, old", [*WITH_OFFSETS_OF_CONNECT, BEFORE_OFFSETS], 16_100, 28, MAY_LOSE, (LATE, FOLLOW)),
    # The group that its id names: it holds no offsets yet.
    ("no members", [BY_NAME_OPEN, EMPTY], 13_100, 33, MAY_LOSE, (BY_NAME, FOLLOW)),
    ("another process", [BY_NAME_OPEN, OTHERS], 13_100, 33, MAY_LOSE, (BY_NAME, FOLLOW)),
    ("it lives", [BY_NAME_OPEN, group(member())], 13_100, 29, GOES_ON, (LIVES,)),
    ("it lives and is late", [BY_NAME_OPEN, group(member())], 41_000, 29, GOES_ON, (LIVES,)),
    ("its clients tell nothing, and it is silent", [BY_NAME_OPEN, group("my-client")], 41_000, 28, MAY_LOSE, (LATE, FOLLOW)),
    ("a group that never had members", [BY_NAME_OPEN, group(state="Empty", is_simple=True)], 13_100, 29, GOES_ON, (LIVES,)),
    ("so it is, and its owner is silent", [BY_NAME_OPEN, group(state="Empty", is_simple=True)],
        41_000, 28, MAY_LOSE, (LATE, FOLLOW)),
    ("nothing is known", [BY_NAME_OPEN, group(state="Dead")], 13_100, 29, GOES_ON, (LIVES,)),
    ("no members, and it writes to no topic of Streams", [begun("out-0", transaction=ID), EMPTY], 13_100, 7, FOREIGN, ()),
    ("its repartition topic", [begun("shop-by-user-repartition-11", transaction=ID), EMPTY],
        13_100, 33, MAY_LOSE, (BY_NAME, FOLLOW)),
    ("the changelog of another application", [begun("other-counts-changelog-0", transaction=ID), EMPTY], 13_100, 7, FOREIGN, ()),
    ("no changelog, by its name's end", [begun("shop-changelog-reports-0", transaction=ID), EMPTY], 13_100, 7, FOREIGN, ()),
    # The groups whose offsets it holds.
    ("it lives, and holds offsets", [BY_NAME_HOLDS, group(member())], 40_000, 29, GOES_ON, (LIVES,)),
    ("so it does, and is late", [BY_NAME_HOLDS, group(member())], 40_001, 29, GOES_ON, (LIVES,)),
    ("its group was left", [OPEN_7_4, held(left())], 16_000, 33, ABORT, ()),
    ("whatever its name", [OPEN_7_4, held(left("any name"))], 16_000, 33, ABORT, ()),
    ("both groups were left", [OPEN_7_4, held(left(), left("another"))], 16_000, 33, ABORT, ()),
    ("not for long enough", [OPEN_7_4, held(left(), quiet_ms=MIN_SILENT_MS - 1)], 16_000, 29, GOES_ON, (LIVES,)),
    ("its owner assigns itself partitions", [OPEN_7_4, held(left(is_simple=True))], 16_000, 29, GOES_ON, (LIVES,)),
    ("a group of another protocol", [OPEN_7_4, held(left(state="Dead"))], 16_000, 29, GOES_ON, (LIVES,)),
    ("one of its groups has members", [OPEN_7_4, held(left(), left("b", state="Stable", client_ids=frozenset({"c"})))],
        16_000, 29, GOES_ON, (LIVES,)),
    ("no group has offsets that are held", [OPEN_7_4, held()], 16_000, 29, GOES_ON, (LIVES,)),
    ("another one is open there: whose they are is not known", [OPEN_7_4, held(left(), producers=frozenset({(7, 4), (8, 0)}))],
        16_000, 29, GOES_ON, (LIVES,)),
    ("its producer has a newer epoch", [OPEN_7_4, held(left(), producers=frozenset({(7, 5)}))], 16_000, 29, GOES_ON, (LIVES,)),
    ("it is not open there", [OPEN_7_4, held(left(), producers=frozenset())], 16_000, 29, GOES_ON, (LIVES,)),
    ("another partition of offsets is not answered for", [TWO_OF_OFFSETS, held(left())], 16_000, 29, GOES_ON, (LIVES,)),
    # The group that its id names was left, but the offsets that it holds may be another one's.
    ("it holds another group's offsets", [OPEN_OF_ID, EMPTY_LATER, OF_ANOTHER], 16_000, 29, GOES_ON, (LIVES,)),
    ("so it does, and is late", [OPEN_OF_ID, EMPTY_LATER, OF_ANOTHER], 41_000, 28, LIKELY_ABORT, (LATE,)),
    ("whose offsets it holds is not known", [OPEN_OF_ID, EMPTY_LATER], 16_000, 29, GOES_ON, (LIVES,)),
]  # fmt: skip


@table("given, at, rule, then, assumes", CASES)
def test_case(given: list[Any], at: int, rule: int, then: str, assumes: tuple[Assumption, ...]) -> None:
    found = judgement(given, at)
    assert told(found) == (rule, then)
    assert found.assumes == assumes
    if rule in (28, 29):
        assert found.loses_data is (FOLLOW in assumes or REPLAYS in assumes)


RESTORE_OF_TWO = begun(CHANGELOG, "shop-by-user-repartition-0", "out-0", transaction=ID)
SAYS = [
    # name, what was seen, ms after T0, what the evidence says, and whether it does
    ("no members", [BY_NAME_OPEN, EMPTY], 13_100, "an abort unblocks the restore", True),
    ("it lives", [BY_NAME_OPEN, group(member())], 13_100, "an abort unblocks the restore", False),
    ("which changelog", [RESTORE_OF_TWO, EMPTY], 13_100, f"an abort unblocks the restore from {CHANGELOG};", True),
    ("it lives, and is not late", [BY_NAME_HOLDS, group(member())], 40_000, "longer than usual (30 s). Its owner is there", False),
    ("it lives, and is late", [BY_NAME_HOLDS, group(member())], 40_001, "longer than usual (30 s). Its owner is there", True),
    ("so it is, how that is known", [BY_NAME_HOLDS, group(member())], 41_000, "is a member of its consumer group", True),
    ("it is young", [BY_NAME_HOLDS, group(member())], 13_100, "open for less than", True),
    ("another group's offsets", [OPEN_OF_ID, EMPTY_LATER, OF_ANOTHER], 41_000, "the offsets of consumer group orders-v2", True),
]  # fmt: skip


@table("given, at, text, is_said", SAYS)
def test_the_evidence_says_it(given: list[Any], at: int, text: str, is_said: bool) -> None:
    assert any(text in each.fact for each in judgement(given, at).rests_on) is is_said


OF_GROUPS = [
    # name; what its coordinator says of the group that an id names; the id; whether its owner lives, as far as that tells
    ("not asked", None, ID, None),
    ("no members", EMPTY, ID, False),
    ("asked late enough to tell", group(state="Empty", at=12_001), ID, False),
    ("asked too soon to tell", group(state="Empty", at=12_000), ID, None),
    ("unknown to its coordinator, or of another protocol", group(state="Dead"), ID, None),
    ("the same of a task", group(state="Dead"), "shop-0_3", None),
    ("its thread is a member", group(member()), ID, True),
    ("its thread is a member while the group rebalances", group(member(), state="PreparingRebalance"), ID, True),
    ("another process alone", OTHERS, ID, False),
    ("its thread among others", group(member(OTHER_PROCESS), member()), ID, True),
    ("another thread of its process: its own was replaced", group(member(thread=12)), ID, False),
    ("an id without a thread", group(member(thread=12)), f"shop-{PROCESS}", True),
    ("client ids of its own", group("my-client-StreamThread-1-consumer"), ID, None),
    ("some client ids tell nothing", group(member(OTHER_PROCESS), "my-client"), ID, None),
    ("one producer a task: whoever has the task", OTHERS, "shop-0_3", True),
    ("one producer a task, and no one is there", EMPTY, "shop-0_3", False),
]


@table("asked, id_, lives", OF_GROUPS)
def test_what_its_group_says_of_an_owner(asked: GroupMembers | None, id_: str, lives: bool | None) -> None:
    streams = StreamsId.parse(id_)
    assert streams is not None
    owner = owner_in_group(streams, asked, T0 + 10_000)
    assert (owner.lives if owner is not None else None) is lives
    if owner is not None:
        assert asked is not None
        assert (owner.at_ms, owner.is_proven) == (asked.at_ms, False)
        assert owner.fact, "what tells it is said"


TIES = [
    # name, the id, the partitions of this very transaction, what its tie to its input assumes; None: there is none
    ("its own offsets", "any-program", ("out-0", OFFSETS), ()),
    ("a changelog of Kafka Streams", ID, (CHANGELOG,), (FOLLOW,)),
    ("a changelog and offsets", ID, (CHANGELOG, OFFSETS), ()),
    ("a Connect source's offsets", "any-program", ("connect-offsets-1",), (REPLAYS,)),
    ("a Connect source task by its id", CONNECT, ("out-0",), (FOLLOW, REPLAYS)),
    ("the form of an id alone", ID, ("out-0",), None),
    ("offsets of earlier ones of its id", STREAMS, ("out-0",), None),
    ("an id that is not of Kafka Streams", "shop", (CHANGELOG,), None),
]


@table("id_, partitions, assumes", TIES)
def test_what_ties_it_to_its_input_is_read_of_this_very_transaction(
    id_: str, partitions: tuple[str, ...], assumes: tuple[Assumption, ...] | None
) -> None:
    found = input_tie(folded(*COMMITTED), id_, partitions)
    assert (found.assumes if found is not None else None) == assumes


OF_HELD = [
    # name, the client ids in the group whose offsets it holds, whether its owner lives, whether that is proven
    ("another process", (member(OTHER_PROCESS),), False, True),
    ("its own", (member(),), True, True),
    ("both", (member(OTHER_PROCESS), member()), True, True),
    ("another process, and a client of another name", (member(OTHER_PROCESS), "my-client"), None, False),
    ("a client of another name", ("my-client",), None, False),
    ("none", (), None, False),
]


@table("clients, lives, is_proven", OF_HELD)
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


def test_only_an_open_transaction_of_a_coordinator_is_a_case() -> None:
    opened = only_view(OPEN)
    over = only_view(OPEN, one(BrokerStatus.COMPLETE_COMMIT, 11_000, 10_000))
    of_a_database = replace(only_view(branch_listed(database_handle())), transaction=CONNECT)
    assert of_a_database.is_running
    cases = [
        read_process_write_case(State(), view, driver_silent_ms=30_000, now_ms=T0 + 10_500)
        for view in (opened, over, of_a_database)
    ]
    assert [case is not None for case in cases] == [True, False, False]
    assert cases[0] is not None
    assert (cases[0].open_ms, cases[0].at_ms, cases[0].silent_after_ms) == (500, T0 + 10_000, 30_000)


OF_STREAMS = [
    # name, the id, what it writes to, what is known of its group, whether it is Kafka Streams'
    ("its changelog", ID, CHANGELOG, None, True),
    ("its id alone", ID, "out-0", None, False),
    ("another process in its group", ID, "out-0", OTHERS, True),
    ("another process beside a client of another name", ID, "out-0", group("my-client", member(OTHER_PROCESS)), True),
    ("a client of another name", ID, "out-0", group("my-client"), False),
    ("no members", ID, "out-0", EMPTY, False),
    ("a task, and members", "shop-0_3", "out-0", group(member()), True),
]


@table("id_, partition, asked, is_its", OF_STREAMS)
def test_more_than_an_id_s_form_shows_that_it_is_of_streams(
    id_: str, partition: str, asked: GroupMembers | None, is_its: bool
) -> None:
    state = State()
    if asked is not None:
        state.groups[asked.group] = asked
    streams = StreamsId.parse(id_)
    assert streams is not None
    assert is_streams(state, streams, (partition,)) is is_its
