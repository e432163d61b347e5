"""What a standing order checks for itself at the moment of acting, each thing asked of who owns it. Nobody looks at the page then.

It comes after the plan, which has read the decision log, the coordinators or the database, and a checkpoint's ``_metadata`` again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from indoubt.collector.act.standing_orders.decision import is_certain
from indoubt.collector.records.application_ids import StreamsId
from indoubt.collector.records.orders import Order
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.judging import Judged
from indoubt.collector.verdicts.read_process_write import owner_of_held
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import IndoubtError, Unreachable
from indoubt.lifecycle.offsets_topics import CONSUMER_OFFSETS
from indoubt.lifecycle.orders import Action
from indoubt.resource_managers.kafka.descriptions import ONGOING
from indoubt.resource_managers.kafka.group_members import GroupMembers
from indoubt.resource_managers.kafka.partitions import Answers
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager

ASKED_FOR_S = 1.0


class News(Protocol):
    """What a Flink cluster tells now (observe/flink_rest.py)."""

    def told(self) -> str:
        """Return what is told and not known yet; empty: nothing. Raises what asking it raises."""


Members = Callable[[Collection[str], int], Answers[str, GroupMembers]]
"""Asks who is in these consumer groups now (group_questions.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Who is asked. ``flink`` returns each cluster that is watched now and has a REST API, by its name."""

    broker: KafkaResourceManager
    members: Members
    flink: Callable[[], Mapping[str, News]]


class OwnChecks:
    """All of them, for one thread."""

    def __init__(
        self, current: CurrentState, owners: Owners, *, is_stopped: Callable[[], bool], clock_doubt: Callable[[], str]
    ) -> None:
        self._current, self._owners = current, owners
        self._is_stopped, self._clock_doubt = is_stopped, clock_doubt
        self._news: dict[str, tuple[float, str]] = {}
        self.checks: Sequence[tuple[str, Callable[[Action, Judged], str]]] = (
            ("its coordinator", self._coordinator),
            ("its consumer group", self._consumer_group),
            ("Flink's REST APIs", self._flink_jobs),
            ("its verdict", self._verdict),
            ("the clocks", self._clocks),
            ("the switch", self._switch),
        )
        """Who is asked, in this order, as docs/standing_orders.md has it, and what says why that check fails; empty: it passes."""

    def why_not(self, order: Order) -> str:
        """Return why an order may not be carried out now, in one sentence; empty: every check passes."""
        for key in order.keys:
            judged = self._current.transactions.find(key)
            if judged is None:
                return f"transaction {key} is not known any more"
            for what, check in self.checks:
                try:
                    why = check(order.action, judged)
                except IndoubtError as error:
                    why = f"it could not be asked: {error}"
                if why:
                    return f"{what}: {why}"
        return ""

    def _switch(self, act: Action, judged: Judged) -> str:
        return "all standing orders are stopped" if self._is_stopped() else ""

    def _clocks(self, act: Action, judged: Judged) -> str:
        return self._clock_doubt()

    def _verdict(self, act: Action, judged: Judged) -> str:
        found = judged.judgement
        return "" if is_certain(act, found) else f"it is {found.verdict.value!r} now, {found.certainty.value}"

    def _coordinator(self, act: Action, judged: Judged) -> str:
        """Describe the transaction: it must be the one that was judged, and hold what it held then. Databases were asked before."""
        view = judged.view
        if view.broker is None:
            return ""
        found = self._owners.broker.describe([view.transaction])
        if not found:
            return f"it does not describe {view.transaction}"
        (now,) = found
        if (now.producer_id, now.producer_epoch) != (view.producer_id, view.producer_epoch):
            return f"{view.transaction} has producer {now.producer_id}, epoch {now.producer_epoch} now"
        if now.state != ONGOING or now.started_at_ms != view.broker.identity.start_ms:
            return f"{view.transaction} is {now.state}, begun at another time or ended"
        partitions = {f"{topic}-{number}" for topic, number in now.partitions}
        if partitions != view.broker.partitions:
            changed = ", ".join(sorted(partitions ^ view.broker.partitions))
            return f"{view.transaction} holds other partitions than it was judged by ({changed}): its owner may live"
        return ""

    def _consumer_group(self, act: Action, judged: Judged) -> str:
        """Ask the groups whose offsets an application's transaction holds: its owner must have left all of them."""
        view = judged.view
        if (
            act is Action.COMMIT
            or view.managed
            or view.broker is None
            or self._current.flink.cluster_of(view) is not None
        ):
            return ""
        with self._current.reading() as state:
            named = [name for name in view.broker.partitions if name.rpartition("-")[0] == CONSUMER_OFFSETS]
            held = [state.held_offsets[name] for name in named if name in state.held_offsets]
        if not held or len(held) < len(named):
            return f"nothing tells whose offsets {view.transaction} holds: its owner cannot be asked"
        at_ms = now_ms()
        answers = self._owners.members(sorted({group.group for each in held for group in each.groups}), at_ms)
        for group, error in answers.failed.items():
            return f"group {group} does not say who is in it: {error}"
        now = [
            replace(each, at_ms=at_ms, groups=tuple(answers.found[group.group] for group in each.groups))
            for each in held
        ]
        owner = owner_of_held(view.broker.handle_identity, now, StreamsId.parse(view.transaction))
        if owner is not None and owner.lives is False and owner.is_proven:
            return ""
        return (
            f"{owner.fact}: its owner may be in it"
            if owner is not None
            else f"it is not known whose offsets {view.transaction} holds"
        )

    def _flink_jobs(self, act: Action, judged: Judged) -> str:
        """Ask each watched cluster: no job began, ended or was restored since it was judged.

        The cluster of its own job may be down for a commit in Kafka: a JobManager that died is what the order is for.
        """
        own = self._current.flink.cluster_of(judged.view)
        if own is None:
            return ""
        for cluster, news in self._owners.flink().items():
            try:
                told = self._told(cluster, news)
            except Unreachable as error:
                if act is Action.COMMIT and cluster == own and judged.view.branch is None:
                    continue
                return str(error)
            if told:
                return f"{cluster}: {told}"
        return ""

    def _told(self, cluster: str, news: News) -> str:
        """Return what a cluster tells that is not known, asked now or within the last second: one job has many transactions."""
        asked_s, told = self._news.get(cluster, (-ASKED_FOR_S, ""))
        if time.monotonic() - asked_s >= ASKED_FOR_S or told:
            told = news.told()
            self._news[cluster] = time.monotonic(), told
        return told
