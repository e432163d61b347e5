"""Restart and stop of a pipeline: a record for one run of it in the topic of orders, answered by its lifecycle events."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from indoubt.collector.act.orders.audit import Intent
from indoubt.collector.act.orders.plan import ActionResult, Plan, PlannedAction
from indoubt.collector.records.orders import Order, StepOutcome
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.verdicts.driver_state import gives_signs, state_of
from indoubt.collector.verdicts.judging import PipelineNow
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.errors import OrderRefused
from indoubt.lifecycle.events import sign_in_words
from indoubt.lifecycle.orders import PIPELINE_KEY, Action
from indoubt.lifecycle.pipeline_orders import PipelineAction, PipelineOrder, Run
from indoubt.lifecycle.private_files import given_umask
from indoubt.lifecycle.rows.pipelines import PipelineRow, RestartUnderWay
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog
from indoubt.resource_managers.topics.pipeline_order_topic import write_order

KIND = "pipeline"
CHECK_EVERY_S = 0.1
LIMIT_MS = 60_000
"""How long an order waits for a pipeline's answer before it is pending. The app waits for the collector a little longer."""
_DONE = {
    Action.RESTART: StepOutcome.RESTARTED,
    Action.START: StepOutcome.STARTED,
    Action.STOP: StepOutcome.STOPPED,
}
StartCommands = Mapping[str, tuple[str, ...]]
"""The words of the command that starts a pipeline, by its prefix."""


class PipelineOrders:
    """Writes orders, runs what starts a pipeline, and waits for the answers. Thread-safe."""

    def __init__(
        self,
        current: CurrentState,
        connection: KafkaConnection,
        decision_log: DecisionLog,
        topic: str,
        *,
        limit_ms: int = LIMIT_MS,
        start_commands: StartCommands | None = None,
    ) -> None:
        self._start_commands = start_commands or {}
        self._current, self._connection, self._log, self._topic = current, connection, decision_log, topic
        self._limit_s = limit_ms / 1000
        self._lock = threading.Lock()

    def plan(self, order: Order, who: str, evidence: list[Any]) -> Plan:
        """Return the plan of an order about one pipeline; adds what is known of it to ``evidence``.

        Raises OrderRefused when no run of it is known, a newer run started since it was looked at, a stop lacks the prefix
        typed, or what shall start runs or has no command for it; DecisionLogUnreadable, ResourceManagerError.
        """
        (key,) = order.keys
        prefix = prefix_of(key)
        run = self._present_run(prefix)
        now = self._current.newest_run(prefix)
        evidence.append(_evidence(key, run, now))
        if order.revision_of(key) != str(run.attempt):
            raise OrderRefused(f"{prefix} changed since it was looked at: run {run.attempt} started; look again")
        if order.action is Action.STOP and not order.dry_run and order.confirm != prefix:
            raise OrderRefused(
                f"nothing starts {prefix} again by itself once it is stopped: repeat its prefix in 'confirm'"
            )
        id_ = uuid.uuid4().hex
        target = {
            "kind": KIND,
            "prefix": prefix,
            "checkpoint_id": run.checkpoint_id,
            "attempt": run.attempt,
            "order": id_,
        }
        if order.action is Action.START:
            return self._plan_start(key, prefix, who, now, target)
        self._connection.ensure_topic(self._topic)
        planned = PlannedAction(
            key=key,
            description=f"{order.action.value} {prefix}, run {run.attempt}, by an order in topic {self._topic}",
            target=target,
            checked=_checked(now),
        )

        def execute() -> list[ActionResult]:
            action = PipelineAction(order.action.value)
            if order.action is Action.RESTART:
                self._current.restart_ordered(prefix, now_ms(), who)
            write_order(
                self._connection,
                self._topic,
                PipelineOrder(run=run, action=action, who=who, reason=order.reason, id=id_, at_ms=now_ms()),
            )
            return [self._wait(planned, order.action)]

        return Plan(actions=(planned,), execute=execute)

    def _plan_start(self, key: str, prefix: str, who: str, now: PipelineNow | None, target: Mapping[str, Any]) -> Plan:
        command = self._start_commands.get(prefix)
        if command is None:
            raise OrderRefused(
                f"the collector has no command that starts {prefix}: start it on its machine, or give the collector "
                f"--start-command {prefix}=COMMAND"
            )
        if now is not None and gives_signs(now, self._current.limits, now_ms()):
            raise OrderRefused(f"{prefix} runs ({_checked(now)}): order a restart")
        planned = PlannedAction(
            key=key, description=f"run: {shlex.join(command)}", target=target, checked=_checked(now)
        )

        def execute() -> list[ActionResult]:
            failed = run_start_command(command)
            self._current.restart_ordered(prefix, None if failed else now_ms(), who)
            return [(StepOutcome.REFUSED, failed) if failed else self._wait(planned, Action.START)]

        return Plan(actions=(planned,), execute=execute)

    def probe(self, planned: PlannedAction, intent: Intent) -> ActionResult:
        """Say whether an order was answered; this sends no request."""
        return self._answer(planned, intent.action)

    def _present_run(self, prefix: str) -> Run:
        with self._lock:
            found = self._log.read_to_end().latest_run(prefix)
        if found is None:
            raise OrderRefused(f"no run of a pipeline {prefix!r} is in the decision log: is the prefix right?")
        return Run(prefix=prefix, checkpoint_id=found[1].checkpoint_id, attempt=found[0])

    def _wait(self, planned: PlannedAction, action: Action) -> ActionResult:
        deadline = time.monotonic() + self._limit_s
        while not (end := self._answer(planned, action))[0].is_known and time.monotonic() < deadline:
            time.sleep(CHECK_EVERY_S)
        return end

    def _answer(self, planned: PlannedAction, action: Action) -> ActionResult:
        prefix, attempt, id_ = planned.target["prefix"], planned.target["attempt"], planned.target["order"]
        now = self._current.newest_run(prefix)
        if action is Action.START and (now is None or now.attempt <= attempt):
            return StepOutcome.UNKNOWN, f"the start command has returned; no run after run {attempt} has begun yet"
        if now is None:
            return StepOutcome.UNKNOWN, silence(prefix, attempt, self._topic)
        facts = now.facts
        # The log proves that a newer run began; only the pipeline itself can report that its query started.
        if action is not Action.STOP and now.attempt > attempt and facts.started_attempt >= now.attempt:
            return _DONE[action], f"run {now.attempt} started"
        if action is Action.STOP and facts.stop_answer[1] == id_:
            return _DONE[action], f"run {attempt} ended and its supervisor too"
        if now.attempt > attempt:
            if action is Action.STOP:
                return StepOutcome.REFUSED, f"run {now.attempt} started first: the order was for run {attempt} alone"
            return StepOutcome.UNKNOWN, f"run {now.attempt} is recovering: its query has not started yet"
        if facts.restart_answer[1] == id_:
            return StepOutcome.UNKNOWN, f"run {attempt} ended; the next one has not started yet"
        return StepOutcome.UNKNOWN, silence(prefix, attempt, self._topic)


def prefix_of(key: str) -> str:
    """Return the prefix that a pipeline's key names. Raises OrderRefused."""
    if not key.startswith(PIPELINE_KEY) or key == PIPELINE_KEY:
        raise OrderRefused(
            f"{key!r} is no pipeline's key: it takes {PIPELINE_KEY}PREFIX, as GET /api/v1/pipelines has it"
        )
    return key.removeprefix(PIPELINE_KEY)


def silence(prefix: str, attempt: int, topic: str) -> str:
    """Return what to do about a pipeline that does not answer."""
    return (
        f"run {attempt} of {prefix} has not answered. A driver that stands still cannot answer; its supervisor ends it by "
        f"force and then does, after a minute at most. If nothing comes, the supervisor itself stands still, is gone, or may "
        f"not read {topic}: end its processes on its machine (kill -9) and start the pipeline again; what is decided can be "
        f"committed from here meanwhile. The order stays in the topic and can never hit another run than {attempt}"
    )


def pipeline_row(now: PipelineNow, *, may_start: bool = False, restart: RestartUnderWay | None = None) -> PipelineRow:
    """Return a row of GET /pipelines."""
    facts, interval_ms = now.facts, now.facts.settings.get("interval_ms")
    return PipelineRow(
        key=PIPELINE_KEY + facts.pipeline,
        pipeline=facts.pipeline,
        checkpoint_id=now.checkpoint_id,
        attempt=now.attempt,
        state=state_of(now),
        run_at_ms=now.run_ms,
        started_at_ms=facts.started_ms,
        last_seen_at_ms=facts.last_seen_ms,
        last_heartbeat=sign_in_words(facts.last_heartbeat),
        interval_ms=interval_ms if isinstance(interval_ms, int) else None,
        source=_text(facts.settings.get("source")),
        sink=_text(facts.settings.get("sink")),
        may_start=may_start,
        restart=restart,
        revision=str(now.attempt),
    )


def _text(setting: Any) -> str | None:
    return None if setting is None else str(setting)


def _checked(now: PipelineNow | None) -> str:
    if now is None:
        return "nothing is known of it but its run in the decision log"
    facts = now.facts
    if not facts.last_seen_ms:
        return state_of(now)
    ago = duration(now_ms() - facts.last_seen_ms)
    return f"{state_of(now)}; last heartbeat {ago} ago: {sign_in_words(facts.last_heartbeat)}"


def _evidence(key: str, run: Run, now: PipelineNow | None) -> dict[str, Any]:
    row = {"key": key, "checkpoint_id": run.checkpoint_id, "attempt": run.attempt}
    if now is None:
        return row
    heartbeat = {"last_heartbeat": now.facts.last_heartbeat, "last_seen_at_ms": now.facts.last_seen_ms}
    return row | {"state": state_of(now)} | heartbeat


START_LIMIT_S = 30.0
OUTPUT_SHOWN = 300
PASSED_ON = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "JAVA_HOME"),
        *("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),  # systemctl --user
        *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "DOCKER_HOST"),
    )
)
"""What a command gets of the collector's environment, besides LC_*: nobody can tell of the rest what is a secret."""


def run_start_command(command: Sequence[str], environment: Mapping[str, str] = os.environ) -> str:
    """Run the administrator's own command, with nothing in it that an operator typed; return why it failed, or an empty text.

    It runs to its end, without a shell, with PASSED_ON of the environment.
    """
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={name: environment[name] for name in environment if name in PASSED_ON or name.startswith("LC_")},
            timeout=START_LIMIT_S,
            check=False,
            # What it starts makes files of its own, such as a checkpoint directory that others read.
            umask=given_umask(),
        )
    except subprocess.TimeoutExpired:
        return f"the start command did not return within {START_LIMIT_S:.0f} s and was ended: it must start the pipeline and return"
    except OSError as error:
        return f"the start command cannot be run: {error.strerror or error}"
    if ended.returncode == 0:
        return ""
    said = ended.stdout.decode(errors="replace").strip()[-OUTPUT_SHOWN:]
    return f"the start command ended with {ended.returncode}{f': {said}' if said else ''}"
