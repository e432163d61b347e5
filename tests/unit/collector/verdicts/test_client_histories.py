"""Random histories of clients that write in transactions: no certain verdict contradicts a model that knows what is true.

Beside Flink's jobs: they send offsets always, sometimes or never; their ids have any form; their groups are empty, renamed, shared,
or of members that assign themselves their partitions; the collector's clock is off from the brokers' by up to 5 min.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indoubt.collector.facts.fold import apply
from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_join import views
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.verdicts.judging import EvaluationContext, judged
from indoubt.collector.verdicts.loss_cases import judged as judged_losses
from indoubt.collector.verdicts.loss_cases import loss_inputs
from indoubt.collector.verdicts.read_process_write import MIN_SILENT_MS
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.lifecycle.verdicts import Certainty, Verdict
from indoubt.resource_managers.kafka.group_members import EMPTY, GroupMembers, HeldOffsets
from indoubt.resource_managers.kafka.group_questions import offsets_partition
from tests.unit.collector.observations import T0, broker_record

OFFSETS_PARTITIONS = 2
"""So few that groups of several applications are kept in one."""
UUID = "6c7e1f0a-91b4-4a55-8f0e-0123456789ab"
IDS = (f"shop-{UUID}-1", "shop-0_3", "shop-writer", "connect-cluster-lake-orders-0", "shop-0-12", UUID)
GROUPS = ("shop", "shop-v2", "connect-cluster", "billing")
CLIENT_IDS = (f"shop-{UUID}-StreamThread-1-consumer", f"shop-{UUID[::-1]}-StreamThread-1-consumer", "rdkafka")
TOPICS = ("out", "shop-counts-changelog", "connect-offsets")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A program: its id, its group, how it reads, and which of its transactions hold the offsets of their input."""

    id_: str
    group: str
    client_id: str
    is_member: bool
    offsets: str
    topic: str


@dataclass(kw_only=True)
class Opened:
    """A transaction. ``of_input``: its rows come from the input whose offsets it holds, or will hold; else from elsewhere."""

    epoch: int
    start: int
    of_input: bool
    partitions: list[str] = field(default_factory=list)
    wrote_ms: int = 0


@dataclass(kw_only=True)
class Client:
    """A program that runs, or did."""

    kind: Kind
    number: int
    epoch: int = 0
    lives: bool = True
    in_group: bool = False
    begun: int = 0
    opened: Opened | None = None


class World:
    """Brokers with some clients, and a collector that reads the transaction log and polls groups and partitions each second."""

    def __init__(self, kinds: list[Kind], skew_ms: int) -> None:
        self.now, self.skew_ms, self.state = 0, skew_ms, State()
        self.committed: set[str] = set()
        self.had_members: set[str] = set()
        self.clients = [Client(kind=kind, number=number) for number, kind in enumerate(kinds, start=7)]
        for client in self.clients:
            self.join(client)

    def join(self, client: Client) -> None:
        client.in_group = client.kind.is_member
        if client.kind.is_member:
            self.had_members.add(client.kind.group)

    def step(self, what: str, client: Client) -> None:
        """Let something happen that can."""
        if what == "wait":
            return
        if what == "restart":
            self.end(client, BrokerStatus.COMPLETE_ABORT)
            client.lives = True
            self.join(client)
        elif what == "leave":
            client.in_group = False
        elif client.lives:
            getattr(self, what)(client)

    def die(self, client: Client) -> None:
        client.lives = client.in_group = False

    def begin(self, client: Client) -> None:
        if client.opened is None:
            client.begun += 1
            client.epoch += 1
            of_input = client.kind.offsets == "always" or (client.kind.offsets == "sometimes" and client.begun % 2 == 1)
            client.opened = Opened(epoch=client.epoch, start=self.now, of_input=of_input)
            self.write(client)

    def write(self, client: Client) -> None:
        if client.opened is not None:
            client.opened.wrote_ms = self.now
            self.add(client, f"{client.kind.topic}-0")

    def offsets(self, client: Client) -> None:
        if client.opened is not None and client.opened.of_input:
            client.opened.wrote_ms = self.now
            self.add(client, f"{CONSUMER_OFFSETS}-{offsets_partition(client.kind.group, OFFSETS_PARTITIONS)}")

    def add(self, client: Client, partition: str) -> None:
        assert client.opened is not None
        if partition not in client.opened.partitions:
            client.opened.partitions.append(partition)
        self.record(client, BrokerStatus.ONGOING, client.opened)

    def commit(self, client: Client) -> None:
        if client.opened is not None and client.opened.of_input and client.kind.offsets != "never":
            self.offsets(client)
            self.committed.add(client.kind.group)
        self.end(client, BrokerStatus.COMPLETE_COMMIT)

    def end(self, client: Client, status: BrokerStatus) -> None:
        if client.opened is not None:
            self.record(client, status, client.opened)
            client.opened = None

    def record(self, client: Client, status: BrokerStatus, opened: Opened) -> None:
        partitions = tuple(opened.partitions)
        named: dict[str, Any] = {"transaction": client.kind.id_, "producer_id": client.number, "epoch": opened.epoch}
        apply(self.state, broker_record(status, self.now, start=opened.start, partitions=partitions, **named))

    def poll(self) -> None:
        """Ask groups and partitions, as the collector does, at its own time."""
        at_ms = T0 + self.now + self.skew_ms
        names = {client.kind.group for client in self.clients}
        asked = {name: self.group(name, at_ms) for name in names}
        self.state.groups = asked
        before, self.state.held_offsets = self.state.held_offsets, {}
        for number in range(OFFSETS_PARTITIONS):
            partition = f"{CONSUMER_OFFSETS}-{number}"
            here = [(c, c.opened) for c in self.clients if c.opened is not None and partition in c.opened.partitions]
            held = {client.kind.group for client, _ in here} & self.committed
            seen = HeldOffsets(
                producers=frozenset((client.number, opened.epoch) for client, opened in here),
                groups=tuple(asked[name] for name in sorted(held)),
                written=frozenset((p, opened.start, opened.wrote_ms) for _, opened in here for p in opened.partitions),
                since_ms=at_ms,
                at_ms=at_ms,
            )
            if here:
                self.state.held_offsets[partition] = seen.following(before.get(partition))

    def group(self, name: str, at_ms: int) -> GroupMembers:
        members = frozenset(c.kind.client_id for c in self.clients if c.in_group and c.kind.group == name)
        is_simple = name not in self.had_members
        return GroupMembers(
            group=name, state="Stable" if members else EMPTY, client_ids=members, at_ms=at_ms, is_simple=is_simple
        )

    def check(self) -> None:
        """Hold every certain answer against what is true."""
        at_ms = T0 + self.now + self.skew_ms
        context = EvaluationContext(limits=Limits(), log_status=(DecisionLogStatus.ABSENT, ""), now_ms=at_ms)
        found = views(self.state, settled=True)
        for one in judged(context.cases(self.state, [view for view in found if view.is_running])):
            owner = next(c for c in self.clients if c.opened is not None and c.number == one.view.producer_id)
            assert owner.opened is not None
            assert one.judgement.verdict is not Verdict.COMMIT_IT
            if one.judgement.verdict is Verdict.ABORT_IT and one.judgement.certainty is Certainty.CERTAIN:
                assert owner.opened.of_input, "an abort loses rows that come from elsewhere"
                assert not owner.in_group, "its owner is in its group"
                assert owner.opened.wrote_ms + MIN_SILENT_MS <= self.now + 1_000, "its owner writes"
            if one.judgement.may_abort and not one.judgement.loses_data:
                assert owner.opened.of_input, "nothing is typed, and rows are lost"
        losses = judged_losses(
            loss_inputs(self.state, DecisionLogStatus.ABSENT, [v for v in found if not v.is_running])
        )
        for loss in losses:
            is_sure = loss.certainty is Certainty.CERTAIN
            assert not (is_sure and loss.verdict in (LossVerdict.LOST, LossVerdict.DUPLICATED, LossVerdict.HARMLESS))


KINDS = st.builds(
    Kind,
    id_=st.sampled_from(IDS),
    group=st.sampled_from(GROUPS),
    client_id=st.sampled_from(CLIENT_IDS),
    is_member=st.booleans(),
    offsets=st.sampled_from(("always", "sometimes", "never")),
    topic=st.sampled_from(TOPICS),
)
CLIENTS = st.lists(KINDS, min_size=1, max_size=3, unique_by=lambda kind: kind.id_)
STEPS = ("begin", "write", "offsets", "commit", "die", "restart", "leave", "wait")
HISTORY = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2), st.sampled_from((0, 1, 6, 40))), max_size=15)
SKEWS_MS = st.sampled_from((0, 0, 1_500, -1_500, 120_000, -120_000, 300_000, -300_000))


def play(kinds: list[Kind], steps: list[tuple[str, int, int]], skew_ms: int) -> World:
    """Let it all happen; after each step as many seconds pass, with a poll and a check each, the last of them far apart."""
    world = World(kinds, skew_ms)
    for what, which, seconds in steps:
        world.step(what, world.clients[which % len(world.clients)])
        for passed in sorted({1, 2, 6, seconds} if seconds else ()):
            if passed <= seconds:
                world.now += 1_000 * (seconds if passed == seconds and seconds > 6 else 1)
                world.poll()
                world.check()
    return world


LEFT = Kind(id_=f"shop-{UUID}-1", group="shop", client_id=CLIENT_IDS[0], is_member=True, offsets="always", topic="out")
GONE = [("begin", 0, 1), ("commit", 0, 1), ("begin", 0, 1), ("offsets", 0, 1), ("die", 0, 1), *[("wait", 0, 6)] * 3]


@settings(max_examples=300)
@given(CLIENTS, HISTORY, SKEWS_MS)
@example([LEFT], GONE, 300_000)
def test_no_certain_answer_about_a_client_is_wrong(
    kinds: list[Kind], steps: list[tuple[str, int, int]], skew_ms: int
) -> None:
    play(kinds, steps, skew_ms)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=3_000)
@given(CLIENTS, HISTORY, SKEWS_MS)
def test_no_certain_answer_about_a_client_is_wrong_in_many_histories(
    kinds: list[Kind], steps: list[tuple[str, int, int]], skew_ms: int
) -> None:
    play(kinds, steps, skew_ms)


@pytest.mark.parametrize("skew_ms", [0, 300_000, -300_000])
def test_an_owner_that_died_is_found_whatever_the_clocks_say(skew_ms: int) -> None:
    world = play([LEFT], GONE, skew_ms)
    context = EvaluationContext(
        limits=Limits(), log_status=(DecisionLogStatus.ABSENT, ""), now_ms=T0 + world.now + skew_ms
    )
    (found,) = judged(context.cases(world.state, [v for v in views(world.state, settled=True) if v.is_running]))
    assert (found.judgement.verdict, found.judgement.certainty) == (Verdict.ABORT_IT, Certainty.CERTAIN)
