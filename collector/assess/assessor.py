"""Says when an assessment is made: once a second, and sooner for whoever asks after a change.

Nothing else judges what is open, but an order and its preview: they judge anew what they are about.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator

from indoubt.collector.assess.assessment import Assessment, Surroundings, assess
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.runtime.background import Background
from indoubt.collector.runtime.clock import now_ms
from indoubt.collector.views.current_state import CurrentState

EVERY_S = 1.0
REST_TIMES = 4
"""An assessment stands for so many times as long as it took: with thousands of open transactions others need the time too."""
SHORT_S, LONG_S = 0.005, 0.1
"""One that took less than the first is replaced as soon as something changed. One that took as long as the second is made by
the thread alone: a request does not wait for it."""
OLD_TIMES = 10
"""Once it is older than so many times as long as it took, who asks makes it: the thread's fail, and who asks is told why."""
STOP_LOOK_S = 0.25
log = logging.getLogger(__name__)


class Assessor(Background):
    """Thread-safe. Its thread announces what changes by time alone; ``follow`` is for those that act on each assessment."""

    def __init__(
        self, current: CurrentState, limits: AlertSettings, around: Surroundings, *, every_s: float = EVERY_S
    ) -> None:
        super().__init__("assessor")
        self._current, self._limits, self._around, self._every_s = current, limits, around, every_s
        self._kept: Assessment | None = None
        self._kept_s = self._rest_s = self._took_s = 0.0
        self._assessing = threading.Lock()
        self._tick: Assessment | None = None
        """The last one that was made for those who follow."""
        self._ticked = threading.Condition()

    def now(self) -> Assessment:
        """Return what is open now: as of at most a second ago, and with every change that was folded before the call.

        Where an assessment takes long it is older, four times as long as it took.
        """
        kept = self._kept
        old_s = max(3 * self._every_s, OLD_TIMES * self._took_s)
        if kept is not None and self._took_s >= LONG_S and time.monotonic() - self._kept_s < old_s:
            return kept
        with self._assessing:
            kept, at_ms, age_s = self._kept, now_ms(), time.monotonic() - self._kept_s
            if kept is not None and kept.now_ms <= at_ms:
                is_new = kept.version == self._current.version and age_s < self._every_s
                if is_new or age_s < self._rest_s:
                    return kept
            return self._assess(at_ms)

    def _assess(self, at_ms: int) -> Assessment:
        began_s = time.thread_time()
        self._kept = made = assess(self._current, self._limits, self._around, at_ms, self._kept)
        self._took_s = time.thread_time() - began_s
        self._kept_s, self._rest_s = time.monotonic(), REST_TIMES * self._took_s if self._took_s >= SHORT_S else 0.0
        return made

    def follow(self, stopping: threading.Event) -> Iterator[Assessment]:
        """Yield the assessment of each second, until ``stopping``; whoever takes longer than a second misses some."""
        seen: Assessment | None = None
        while not stopping.is_set():
            with self._ticked:
                if self._tick is seen:
                    self._ticked.wait(STOP_LOOK_S)
                found = self._tick
            if found is not None and found is not seen and not stopping.is_set():
                seen = found
                yield found

    def _run(self) -> None:
        before: object = None
        while not self.stopping.wait(max(self._every_s, self._rest_s)):
            try:
                with self._assessing:
                    found = self._assess(now_ms())
            except Exception:
                log.exception("what is open could not be judged")
                continue
            with self._ticked:
                self._tick = found
                self._ticked.notify_all()
            verdicts = {item.view.key: item.judgement.verdict for item in found.judged}
            incidents = [
                (one.key, one.state, one.severity, one.steps, one.alerts, [(part.key, part.keys) for part in one.parts])
                for one in found.incidents
            ]
            if (verdicts, incidents, found.awaited) != before:
                before = (verdicts, incidents, found.awaited)
                self._current.changed()
