"""Judges alerts by each assessment: what the rules find goes through the state machine, and with its outbox into history.

Nothing is notified that history does not have, so a restart neither loses a notification nor makes it twice. While history
cannot be written, alerts are shown as they stand and no receiver is notified.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from indoubt.collector.assess import rules
from indoubt.collector.assess.assessment import Assessment
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.history.store import StoreFailed
from indoubt.collector.notify import silences
from indoubt.collector.notify.silences import Silence
from indoubt.collector.notify.state_machine import Alert, AlertState, AlertStates, moved, step
from indoubt.collector.notify.store import AlertStore
from indoubt.collector.runtime.clock import CLOCK, now_ms

log = logging.getLogger(__name__)
STOP_LIMIT_S = 30.0
SETTLES_S = 5.0
"""Every observer polls again within this time of a clock step; until then no rule is evaluated."""
URGENCY = (AlertState.FIRING, AlertState.PENDING, AlertState.RESOLVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAlert:
    """An alert with the silence that covers it, if one does."""

    alert: Alert
    silence: Silence | None


class AlertEvaluator:
    """A thread of its own judges; silences come from the API's threads."""

    def __init__(
        self,
        kept: AlertStore,
        follow: Callable[[threading.Event], Iterator[Assessment]],
        *,
        settings: AlertSettings,
        receivers: Sequence[str],
        changed: Callable[[], None],
        notified: Callable[[], None],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """``leads``: says whether this collector judges alerts now; where not, they are shown as the leader has them."""
        self._kept, self._follow, self._settings = kept, follow, settings
        self._receivers = tuple(receivers)
        self._changed, self._notified, self._leads = changed, notified, leads
        self._states: AlertStates | None = None
        self._shifted_ms = self._shift_seen_ms = CLOCK.shifted_ms
        self._settled_s = 0.0
        self._shown = AlertStates()
        self._in_order: tuple[Mapping[str, Alert], list[Alert]] = ({}, [])
        """What was shown last, and its alerts by urgency."""
        self._silences: tuple[Silence, ...] = ()
        self._silencing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alerts", daemon=True)

    def start(self) -> None:
        """Load what stood before, then judge, in a thread of its own; what cannot be loaded yet is loaded by then."""
        with contextlib.suppress(StoreFailed):
            self._load()
        self._thread.start()

    def stop(self) -> None:
        """Stop judging; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join(STOP_LIMIT_S)

    def alerts(self) -> list[ShownAlert]:
        """Return every alert: firing first, then pending, then resolved; of each the most severe, then the newest, first."""
        at_ms, known, alerts = now_ms(), self._silences, self._shown.alerts
        of, in_order = self._in_order
        if of is not alerts:
            in_order = sorted(alerts.values(), key=urgency)
            self._in_order = alerts, in_order
        if not known:
            return [ShownAlert(alert=alert, silence=None) for alert in in_order]
        return [
            ShownAlert(alert=alert, silence=silences.covering(known, alert.finding.labels, at_ms)) for alert in in_order
        ]

    def silences(self) -> list[Silence]:
        """Return the silences, newest first, those that ended too."""
        return sorted(self._silences, key=lambda silence: -silence.number)

    def silence(self, silence: Silence) -> Silence:
        """Keep a silence, with its audit row, and return it with its number. Raises StoreFailed."""
        with self._silencing:
            numbered = replace(silence, number=self._kept.next_silence())
            self._keep_silence(numbered, numbered.author, "silence", numbered.reason)
        return numbered

    def end_silence(self, number: int, who: str, reason: str) -> Silence | None:
        """End a silence now, with its audit row, and return it; None when there is none of that number. Raises StoreFailed."""
        with self._silencing:
            found = next((silence for silence in self._silences if silence.number == number), None)
            if found is None:
                return None
            ended = replace(found, ends_ms=min(found.ends_ms, now_ms()))
            self._keep_silence(ended, who, "end silence", reason)
        return ended

    def refuse(self, who: str, action: str, reason: str, why: str) -> int:
        """Write down that a caller may not silence; return the audit row's number. Raises StoreFailed."""
        return self._kept.store.append_audit((now_ms(), who, action, "[]", reason, "refused", why, "[]"))

    def judge(self, assessed: Assessment) -> None:
        """Make one step and keep it. Raises StoreFailed; the step is then made again from what history has."""
        leads = self._leads()
        if self._states is None or not leads:
            before = self._shown.alerts
            self._load()
            if not leads:
                self._states = None
                if self._shown.alerts != before:
                    self._changed()
                return
        seen = assessed.situation
        if self._is_settling():
            return
        made = step(
            self._states or AlertStates(),
            rules.findings(seen),
            self._silences,
            seen.now_ms,
            self._settings,
            rules.held(seen),
            self._shift_seen_ms - self._shifted_ms,
        )
        self._shown = made.states
        if made.is_change:
            # Until the write is known to be kept, the content of history is unknown: the next step reads it again.
            self._states = None
            self._kept.keep(made, self._receivers)
            self._changed()
        self._states, self._shifted_ms = made.states, self._shift_seen_ms
        if made.notifications:
            self._notified()

    def _load(self) -> None:
        with self._silencing:
            self._silences = tuple(self._kept.silences())
        # Of a clock that was ahead then: nothing waits for a time that is still to come.
        at_ms, self._shifted_ms = now_ms(), self._shift_seen_ms
        self._states = self._shown = moved(self._kept.load(), lambda kept_ms: min(kept_ms, at_ms))

    def _is_settling(self) -> bool:
        """Say whether the clock was stepped just now: what is seen may still bear times of before."""
        shifted_ms = CLOCK.shifted_ms
        if shifted_ms != self._shift_seen_ms:
            self._shift_seen_ms, self._settled_s = shifted_ms, time.monotonic() + SETTLES_S
        return time.monotonic() < self._settled_s

    def _run(self) -> None:
        for assessed in self._follow(self._stopping):
            try:
                self.judge(assessed)
            except StoreFailed as error:
                log.error("alerts are evaluated but no receiver is notified: %s", error)
            except Exception:
                log.exception("alerts could not be judged")

    def _keep_silence(self, silence: Silence, who: str, action: str, reason: str) -> None:
        evidence = [{"matchers": dict(silence.matchers), "ends_at_ms": silence.ends_ms}]
        keys = json.dumps([f"silence:{silence.number}"])
        audit = (now_ms(), who, action, keys, reason, "accepted", "", json.dumps(evidence))
        number = self._kept.keep_silence(silence, audit)
        log.info("audit %d: %s %d by %s", number, action, silence.number, who)
        others = tuple(kept for kept in self._silences if kept.number != silence.number)
        self._silences = (silence, *others)
        self._changed()


def urgency(alert: Alert) -> tuple[int, int, int, str]:
    """Return where an alert stands in the list: firing, pending, resolved; the most severe, then the newest, first."""
    finding = alert.finding
    return (URGENCY.index(alert.state), -finding.severity.rank, -alert.since_ms, finding.key)
