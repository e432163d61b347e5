"""Open transactions of applications that read, process and write: Kafka Streams, Kafka Connect, and whoever does the same. Pure.

Such a transaction holds the offsets of its own input (KIP-129, KIP-618): an abort undoes them with its rows, and the input is read
again. So an abort never loses a row; it is due once the owner has stopped.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from collector.records.application_ids import UUID_TEXT, StreamsId, is_connect_task
from collector.state.state import State, holds_offsets
from collector.state.transaction_view import TransactionView
from collector.verdicts.streams_topics import is_changelog, own_topics
from lifecycle.durations import duration
from lifecycle.verdicts import Assumption, Evidence, Judgement, Verdict
from resource_managers.kafka.group_members import EMPTY, GroupMembers

GROUPS = "consumer groups"
CLOCK_SKEW_MS = 2_000
"""So far the clock of a coordinator may be ahead: a process is in its group before it begins a transaction."""
MIN_SILENT_MS = 5_000
SILENT_LENGTHS = 3
"""An owner counts as silent once its transaction is open for so many of the longest that was committed under its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A part of a Kafka Streams application, and whether its consumer group has it. ``at_ms``: when the group was asked.

    ``lives`` None: its group was not asked since the transaction began, or does not tell.
    """

    streams: StreamsId
    lives: bool | None = None
    fact: str = ""
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadProcessWriteCase:
    """An open transaction of this kind: why it is one, how long it is open, and how long its owner's usually are (ms)."""

    why: str
    open_ms: int
    silent_after_ms: int
    at_ms: int
    owner: Owner | None = None
    changelogs: tuple[str, ...] = ()
    """The partitions of the application's own changelogs that it holds back."""


def reads_its_input(state: State, transaction: str, partitions: Collection[str]) -> bool:
    """Say whether an id's application is known to write the offsets of its input in its transactions.

    ``partitions`` (``topic-number``): of this one. Kafka Streams alone writes to the topics that it keeps for itself.
    """
    streams = StreamsId.parse(transaction)
    if streams is not None and own_topics(streams.application, partitions):
        return True
    return transaction in state.longest_with_offsets or is_connect_task(transaction)


def read_process_write_case(
    state: State, view: TransactionView, *, driver_silent_ms: int, now_ms: int
) -> ReadProcessWriteCase | None:
    """Return the case of an open transaction of another application, or None for one of another kind."""
    # An id of our form may be a pipeline's with another decision log: its offsets are markers, and it may be decided.
    if view.broker is None or not view.is_running or view.named_prefix is not None:
        return None
    longest_ms = state.longest_with_offsets.get(view.transaction)
    streams = StreamsId.parse(view.transaction)
    own = own_topics(streams.application, view.broker.partitions) if streams is not None else []
    if holds_offsets(state, view.broker.partitions):
        why = "it holds the offsets of its own input"
    elif longest_ms is not None:
        why = "earlier transactions of its id held the offsets of their own input"
    elif is_connect_task(view.transaction):
        why = "it is a Kafka Connect source task's: its source offsets are written in it"
    elif own:
        why = f"it wrote to {own[0]}: Kafka Streams commits the offsets of its input in the same transaction"
    else:
        return None
    silent_after_ms = driver_silent_ms if longest_ms is None else max(MIN_SILENT_MS, SILENT_LENGTHS * longest_ms)
    start_ms = view.broker.identity.start_ms
    return ReadProcessWriteCase(
        why=why,
        open_ms=max(0, now_ms - start_ms),
        silent_after_ms=silent_after_ms,
        at_ms=start_ms,
        owner=owner_in_group(streams, state.groups.get(streams.application), start_ms) if streams is not None else None,
        changelogs=tuple(name for name in own if is_changelog(name.rpartition("-")[0])),
    )


def owner_in_group(streams: StreamsId, group: GroupMembers | None, start_ms: int) -> Owner:
    """Return whether the application's group has the owner of a transaction that began at ``start_ms``.

    A member's client id is ``<application.id>-<process id>-StreamThread-<thread>-consumer`` where the application sets no client.id
    of its own. A group that the coordinator does not know tells nothing.
    """
    if group is None or group.at_ms <= start_ms + CLOCK_SKEW_MS:
        return Owner(streams=streams)
    at_ms, name = group.at_ms, group.group
    if group.state == EMPTY:
        if group.is_simple:
            # It never had members: a program that assigns itself its partitions commits offsets under this name.
            return Owner(streams=streams)
        fact = f"its consumer group {name} has no members"
        return Owner(streams=streams, lives=False, fact=fact, at_ms=at_ms)
    if not group.client_ids:
        return Owner(streams=streams)
    if not streams.process:
        fact = f"its consumer group {name} has members: one of them has its task"
        return Owner(streams=streams, lives=True, fact=fact, at_ms=at_ms)
    stem = f"{streams.application}-{streams.process}-StreamThread-"
    if any(client.startswith(f"{stem}{streams.part}-" if streams.part else stem) for client in group.client_ids):
        fact = f"{streams.words} is a member of its consumer group {name}"
        return Owner(streams=streams, lives=True, fact=fact, at_ms=at_ms)
    of_processes = re.compile(rf"{re.escape(streams.application)}-{UUID_TEXT}-StreamThread-.*", re.DOTALL)
    if not all(of_processes.fullmatch(client) for client in group.client_ids):
        return Owner(streams=streams)
    fact = f"{streams.words} is no member of its consumer group {name}: other processes are"
    return Owner(streams=streams, lives=False, fact=fact, at_ms=at_ms)


def judge(case: ReadProcessWriteCase) -> Judgement:
    """Rules 33, 28 and 29: abort it once its owner is gone or silent, leave it before."""
    held = Evidence(
        fact=f"{case.why}: an abort undoes them with its rows, and the input is read again", source="partitions"
    )
    if case.owner is not None and case.owner.lives is False:
        return rule_33_owner_gone(case, case.owner, held)
    if case.open_ms <= case.silent_after_ms or (case.owner is not None and case.owner.lives):
        return rule_29_owner_works(case, held)
    return rule_28_owner_silent(case, held)


def rule_33_owner_gone(case: ReadProcessWriteCase, owner: Owner, held: Evidence) -> Judgement:
    """Its consumer group does not have the process that opened it: nothing will commit it."""
    gone = Evidence(fact=owner.fact, source=GROUPS, at_ms=owner.at_ms)
    return Judgement(verdict=Verdict.ABORT_IT, rule=33, rests_on=(held, gone, *_unblocks(case)), may_abort=True)


def rule_28_owner_silent(case: ReadProcessWriteCase, held: Evidence) -> Judgement:
    """Its owner has stopped: an abort loses nothing and lets readers go on."""
    fact = (
        f"open for {duration(case.open_ms)}, and its owner is silent after {duration(case.silent_after_ms)}: "
        "readers wait for its end"
    )
    silent = Evidence(fact=fact, source="transaction coordinator", at_ms=case.at_ms)
    return Judgement(
        verdict=Verdict.ABORT_IT,
        rule=28,
        rests_on=(held, silent, *_unblocks(case)),
        may_abort=True,
    )


def rule_29_owner_works(case: ReadProcessWriteCase, held: Evidence) -> Judgement:
    """Its owner commits it within its usual time, or is a member of its consumer group: then it lives, however late it is."""
    fact = f"open for less than {duration(case.silent_after_ms)}, after which its owner counts as silent"
    if case.open_ms > case.silent_after_ms:
        fact = (
            f"open for {duration(case.open_ms)}, longer than usual ({duration(case.silent_after_ms)}). Its owner is there: "
            "it commits it, or its group drops it after max.poll.interval.ms; readers wait for its end"
        )
    young = Evidence(fact=fact, source="transaction coordinator", at_ms=case.at_ms)
    return Judgement(
        verdict=Verdict.IN_PROGRESS,
        rule=29,
        rests_on=(held, young, *_member(case)),
        assumes=(Assumption.OWNER_ENDS_IT,),
    )


def is_streams(state: State, transaction: str, partitions: Collection[str]) -> bool:
    """Say whether Kafka Streams wrote a transaction by more than its id: its own topics, or the threads in its group, show it."""
    streams = StreamsId.parse(transaction)
    if streams is None:
        return False
    group = state.groups.get(streams.application)
    thread = re.compile(rf"{re.escape(streams.application)}-{UUID_TEXT}-StreamThread-.*", re.DOTALL)
    has_threads = group is not None and any(thread.fullmatch(client) for client in group.client_ids)
    return bool(own_topics(streams.application, partitions)) or has_threads


def _member(case: ReadProcessWriteCase) -> tuple[Evidence, ...]:
    if case.owner is None or not case.owner.lives:
        return ()
    return (Evidence(fact=case.owner.fact, source=GROUPS, at_ms=case.owner.at_ms),)


def _unblocks(case: ReadProcessWriteCase) -> tuple[Evidence, ...]:
    if case.owner is None or not case.owner.streams.process:
        fact = "abort is safe: a new owner of the same id aborts it, too"
    else:
        restore = f"the restore from {', '.join(case.changelogs)}" if case.changelogs else "the restore"
        fact = f"abort is safe, it unblocks {restore}: a process with another id has other transactional ids and does not end it"
    return (Evidence(fact=fact, source="rule"),)
