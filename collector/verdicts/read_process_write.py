"""Open transactions of applications that read, process and write: Kafka Streams, Kafka Connect, and whoever does the same. Pure.

One that holds the offsets of its own input (KIP-129, KIP-618) loses no row by an abort: it undoes both, and the input is read
again. Whether it holds them its coordinator says. Whose they are, and whether that group has its owner, brokers say
(``HeldOffsets``). What an id is called, and what its earlier transactions held, is assumed of this one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.collector.records.application_ids import UUID_TEXT, StreamsId, is_connect_task
from indoubt.collector.records.facts import BrokerTransaction, HandleIdentity
from indoubt.collector.runtime.time_format import utc
from indoubt.collector.verdicts.streams_topics import is_changelog, own_topics
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.lifecycle.verdicts import Assumption, Evidence, Judgement, Verdict
from indoubt.resource_managers.kafka.group_members import GroupMembers, HeldOffsets

COORDINATOR, GROUPS = "transaction coordinator", "consumer groups"
CLOCK_SKEW_MS = 2_000
"""So far the clock of a coordinator may be ahead: a process is in its group before it begins a transaction."""
MIN_SILENT_MS = 5_000
"""An owner that is in no group, and wrote nothing for so long, counts as gone."""
SILENT_LENGTHS = 3
"""An owner counts as silent once its transaction is open for so many of the longest that was committed under its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTie:
    """Why an abort of a transaction is undone by reading its input again; ``assumes``: what of that was not read."""

    why: str
    assumes: tuple[Assumption, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whether a consumer group has the owner of a transaction. ``at_ms``: when it was asked.

    ``lives`` None: that is not known. ``is_proven``: it is the group whose offsets this very transaction holds, and no name of an
    id stands for it.
    """

    lives: bool | None
    fact: str
    at_ms: int
    is_proven: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProcessWriteCase:
    """An open transaction of this kind: why it is one, how long it is open, and how long its owner's usually are (ms)."""

    tie: InputTie
    open_ms: int
    silent_after_ms: int
    at_ms: int
    owner: Owner | None = None
    process: str = ""
    """The process of Kafka Streams that its id names."""
    changelogs: tuple[str, ...] = ()
    """The partitions of the application's own changelogs that it holds back."""


def input_tie(state: State, transaction: str, partitions: Collection[str]) -> InputTie | None:
    """Return what ties a transaction of another application to its input, or None: nothing that is known of it.

    ``partitions`` (``topic-number``): its own. Kafka Streams alone writes to the topics that it keeps for itself.
    """
    topics = {partition.rpartition("-")[0] for partition in partitions}
    if CONSUMER_OFFSETS in topics:
        return InputTie(why="it holds the offsets of its own input")
    if not topics.isdisjoint(state.offsets_topics):
        return InputTie(why="it holds the offsets of a Connect source", assumes=(Assumption.SOURCE_REPLAYS,))
    if is_connect_task(transaction):
        why = (
            "its id is that of a Kafka Connect source task, which writes the offsets of its source in its transactions"
        )
        return InputTie(why=why, assumes=(Assumption.OFFSETS_FOLLOW, Assumption.SOURCE_REPLAYS))
    streams = StreamsId.parse(transaction)
    own = own_topics(streams.application, partitions) if streams is not None else []
    if own:
        why = f"it wrote to {own[0]}: Kafka Streams commits the offsets of its input in the same transaction"
        return InputTie(why=why, assumes=(Assumption.OFFSETS_FOLLOW,))
    return None


def read_process_write_case(
    state: State, view: TransactionView, *, driver_silent_ms: int, now_ms: int
) -> ReadProcessWriteCase | None:
    """Return the case of an open transaction of another application, or None for one of another kind."""
    # An id of our form may be a pipeline's with another decision log: its offsets are markers, and it may be decided.
    if view.broker is None or not view.is_running or view.named_prefix is not None:
        return None
    longest_ms = state.commits.longest_with_offsets.get(view.transaction)
    tie = input_tie(state, view.transaction, view.broker.partitions)
    if tie is None and longest_ms is not None:
        why = "earlier transactions of its id held the offsets of their own input"
        tie = InputTie(why=why, assumes=(Assumption.OFFSETS_FOLLOW,))
    if tie is None:
        return None
    streams = StreamsId.parse(view.transaction)
    own = own_topics(streams.application, view.broker.partitions) if streams is not None else []
    start_ms = view.broker.identity.start_ms
    return ReadProcessWriteCase(
        tie=tie,
        open_ms=max(0, now_ms - start_ms),
        silent_after_ms=driver_silent_ms if longest_ms is None else max(MIN_SILENT_MS, SILENT_LENGTHS * longest_ms),
        at_ms=start_ms,
        owner=_owner(state, view.broker, streams),
        process=streams.process if streams is not None else "",
        changelogs=tuple(name for name in own if is_changelog(name.rpartition("-")[0])),
    )


def _owner(state: State, broker: BrokerTransaction, streams: StreamsId | None) -> Owner | None:
    """Return what the group whose offsets a transaction holds says of its owner, else the group that its id names."""
    named = [name for name in broker.partitions if name.rpartition("-")[0] == CONSUMER_OFFSETS]
    held = [state.held_offsets[name] for name in named if name in state.held_offsets]
    if held and len(held) == len(named) and (found := owner_of_held(broker.handle_identity, held, streams)) is not None:
        return found
    if streams is None or not is_streams(state, streams, broker.partitions):
        return None
    return owner_in_group(streams, state.groups.get(streams.application), broker.identity.start_ms)


def owner_of_held(of: HandleIdentity, held: Sequence[HeldOffsets], streams: StreamsId | None) -> Owner | None:
    """Return what the groups whose offsets a transaction holds say of its owner; None: it is not known whose they are.

    ``held``: of each partition of ``__consumer_offsets`` that it holds. The offsets are its own where no other transaction is open
    on that partition. ``lives`` is False only once every group was left, or has other threads of Kafka Streams alone, and nothing
    was written for MIN_SILENT_MS. No clock but ours is read.
    """
    mine = {(of.producer_id, of.producer_epoch)}
    if any(each.producers != mine or not each.groups for each in held):
        return None
    groups = [group for each in held for group in each.groups]
    since_ms, at_ms = max(each.since_ms for each in held), min(each.at_ms for each in held)
    names = ", ".join(group.group for group in groups)
    whose = f"it holds the offsets of consumer group {names}"
    if streams is not None and any(_has_thread(streams, group) for group in groups):
        fact = f"{streams.words} is a member of its consumer group {names}"
        return Owner(lives=True, fact=fact, at_ms=at_ms, is_proven=True)
    is_left = all(group.is_left or _has_other_threads(streams, group) for group in groups)
    if not is_left or at_ms - since_ms < MIN_SILENT_MS:
        return Owner(lives=None, fact=whose, at_ms=at_ms)
    fact = f"{whose}, which its owner has left; nothing was written in it since {utc(since_ms)}"
    return Owner(lives=False, fact=fact, at_ms=at_ms, is_proven=True)


def owner_in_group(streams: StreamsId, group: GroupMembers | None, start_ms: int) -> Owner | None:
    """Return whether the group that an id names has the owner of a transaction that began at ``start_ms``; None: it does not tell.

    A member's client id is ``<application.id>-<process id>-StreamThread-<thread>-consumer`` where the application sets no client.id
    of its own. A group that the coordinator does not know, or that never had members, tells nothing.
    """
    if group is None or group.at_ms <= start_ms + CLOCK_SKEW_MS:
        return None
    name = group.group
    if group.is_left:
        return Owner(lives=False, fact=f"its consumer group {name} has no members", at_ms=group.at_ms)
    if not group.client_ids:
        return None
    if not streams.process:
        fact = f"its consumer group {name} has members: one of them has its task"
        return Owner(lives=True, fact=fact, at_ms=group.at_ms)
    if _has_thread(streams, group):
        return Owner(lives=True, fact=f"{streams.words} is a member of its consumer group {name}", at_ms=group.at_ms)
    if not _has_other_threads(streams, group):
        return None
    fact = f"{streams.words} is no member of its consumer group {name}: other processes are"
    return Owner(lives=False, fact=fact, at_ms=group.at_ms)


def _has_thread(streams: StreamsId, group: GroupMembers) -> bool:
    stem = f"{streams.application}-{streams.process}-StreamThread-"
    wanted = f"{stem}{streams.part}-" if streams.part else stem
    return any(client.startswith(wanted) for client in group.client_ids)


def _has_other_threads(streams: StreamsId | None, group: GroupMembers) -> bool:
    """Say whether every member is a thread of the Kafka Streams application that an id of another thread names."""
    if streams is None or not streams.process or not group.client_ids:
        return False
    return all(_thread_of(streams.application, each) for each in group.client_ids)


def _thread_of(application: str, client_id: str) -> bool:
    return re.fullmatch(rf"{re.escape(application)}-{UUID_TEXT}-StreamThread-.*", client_id, re.DOTALL) is not None


def judge(case: ReadProcessWriteCase) -> Judgement:
    """Rules 33, 28 and 29: abort it once its owner is gone or silent, leave it before."""
    held = Evidence(f"{case.tie.why}: an abort undoes them with its rows, and the input is read again", COORDINATOR)
    if case.owner is not None and case.owner.lives is False:
        return rule_33_owner_gone(case, case.owner, held)
    if case.open_ms <= case.silent_after_ms or (case.owner is not None and case.owner.lives):
        return rule_29_owner_works(case, held)
    return rule_28_owner_silent(case, held)


def rule_33_owner_gone(case: ReadProcessWriteCase, owner: Owner, held: Evidence) -> Judgement:
    """Its consumer group does not have the process that opened it: nothing will commit it."""
    return Judgement(
        Verdict.ABORT_IT,
        33,
        (held, *_group(case), *_unblocks(case)),
        assumes=case.tie.assumes if owner.is_proven else (Assumption.STREAMS_BY_NAME, *case.tie.assumes),
        may_abort=True,
        loses_data=bool(case.tie.assumes),
    )


def rule_28_owner_silent(case: ReadProcessWriteCase, held: Evidence) -> Judgement:
    """It is open for longer than its owner takes: its owner may have stopped."""
    fact = (
        f"open for {duration(case.open_ms)}, and its owner is silent after {duration(case.silent_after_ms)}: "
        "readers wait for its end"
    )
    silent = Evidence(fact, COORDINATOR, case.at_ms)
    return Judgement(
        Verdict.ABORT_IT,
        28,
        (held, silent, *_group(case), *_unblocks(case)),
        assumes=(Assumption.LATE_IS_GONE, *case.tie.assumes),
        may_abort=True,
        loses_data=bool(case.tie.assumes),
    )


def rule_29_owner_works(case: ReadProcessWriteCase, held: Evidence) -> Judgement:
    """It is open for no longer than usual, or its owner is a member of its consumer group: leave it."""
    fact = f"open for less than {duration(case.silent_after_ms)}: too short to tell whether its owner is gone"
    if case.open_ms > case.silent_after_ms:
        fact = (
            f"open for {duration(case.open_ms)}, longer than usual ({duration(case.silent_after_ms)}). Its owner is there: "
            "it commits it, or its group drops it after max.poll.interval.ms; readers wait for its end"
        )
    young = Evidence(fact, COORDINATOR, case.at_ms)
    rests_on = (held, young, *_group(case))
    return Judgement(Verdict.IN_PROGRESS, 29, rests_on, assumes=(Assumption.OWNER_ENDS_IT,))


def is_streams(state: State, streams: StreamsId, partitions: Collection[str]) -> bool:
    """Say whether Kafka Streams wrote a transaction by more than its id: its own topics, or the threads in its group, show it."""
    group = state.groups.get(streams.application)
    has_threads = group is not None and any(_thread_of(streams.application, each) for each in group.client_ids)
    return bool(own_topics(streams.application, partitions)) or has_threads


def _group(case: ReadProcessWriteCase) -> tuple[Evidence, ...]:
    return (Evidence(case.owner.fact, GROUPS, case.owner.at_ms),) if case.owner is not None else ()


def _unblocks(case: ReadProcessWriteCase) -> tuple[Evidence, ...]:
    if not case.process:
        fact = "a new owner of the same id aborts it, too"
    else:
        restore = f"the restore from {', '.join(case.changelogs)}" if case.changelogs else "the restore"
        fact = f"an abort unblocks {restore}; a process with other transactional ids does not end it"
    return (Evidence(fact, "rule"),)
