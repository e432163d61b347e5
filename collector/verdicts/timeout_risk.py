"""Whether a timeout is long enough: how long an application's transactions were open, and what a restart of it needs, against it.

Pure functions. What is left of a timeout is what a transaction that is as old as they usually get has after one restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.verdict_case import PipelineHistory
from indoubt.lifecycle.rows.pipelines import MeasuredRestart

MAX_TIMEOUT_MS = 900_000
"""transaction.max.timeout.ms of a broker without a setting of its own."""
SHORTEST_INTERVAL_MS = 1_000
_MINUTE_MS, _LONG_MS, _STEP_MS = 60_000, 120_000, 10_000


class TimeoutRisk(Enum):
    """How a timeout stands against what it must outlast, the worst first."""

    TIMED_OUT = "timed out"
    """Transactions were aborted at it."""
    TOO_SHORT = "too short"
    """A restart takes longer than is left to a transaction that is as old as they usually get."""
    TIGHT = "tight"
    """There is time for one restart, and none for a second."""
    NOT_MEASURED = "not measured"
    """There is time for what is assumed of a restart, and none was measured: it may take longer."""
    ENOUGH = "enough"


RISKS = tuple(TimeoutRisk)
_ENOUGH_FOR = {
    TimeoutRisk.TOO_SHORT: "too short",
    TimeoutRisk.TIGHT: "enough for one, too short for two",
    TimeoutRisk.ENOUGH: "enough",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedLengths:
    """How long the transactions of one application were open that ended under its newest timeout. Lengths in ms.

    Percentiles and the longest are of those that did not time out (``ended``): at most a tenth too large, None without any.
    """

    application: str
    timeout_ms: int
    ended: int = 0
    timed_out: int = 0
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None
    longest_ms: int | None = None
    longest_transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNow:
    """The transactions of one application that are open. Times are epoch ms."""

    count: int
    oldest_key: str
    oldest_opened_ms: int
    oldest_timeout_ms: int | None

    @property
    def oldest_deadline_ms(self) -> int | None:
        """Return when the broker aborts the oldest, or None where no timeout ends it, or none is known."""
        return self.oldest_opened_ms + self.oldest_timeout_ms if self.oldest_timeout_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """One application's timeout, and what it stands against; ``pipeline``: what is known of it where it is ours.

    ``restarts``: its measured ones, the oldest first.
    """

    lengths: EndedLengths
    open_now: OpenNow | None
    pipeline: PipelineHistory | None
    assumed_recovery_ms: int
    restarts: tuple[MeasuredRestart, ...] = ()

    @property
    def recovery_ms(self) -> int:
        """Return what one restart needs."""
        return self.pipeline.recovery_ms if self.pipeline is not None else self.assumed_recovery_ms

    @property
    def left_ms(self) -> int:
        """Return what is left after a restart to a transaction that was as old as 99 of 100 get; negative: it is too late."""
        return self.lengths.timeout_ms - (self.lengths.p99_ms or 0) - self.recovery_ms

    @property
    def risk(self) -> TimeoutRisk:
        """Return how the timeout stands."""
        if self.lengths.timed_out:
            return TimeoutRisk.TIMED_OUT
        return self._risk_of_a_restart

    @property
    def _risk_of_a_restart(self) -> TimeoutRisk:
        if self.left_ms < 0:
            return TimeoutRisk.TOO_SHORT
        if not self.restarts_measured:
            return TimeoutRisk.NOT_MEASURED
        return TimeoutRisk.TIGHT if self.left_ms < self.recovery_ms else TimeoutRisk.ENOUGH

    @property
    def recovery(self) -> str:
        """Return what one restart needs, in words."""
        if self.pipeline is None:
            return f"{seconds(self.assumed_recovery_ms)}, assumed: none was seen"
        return f"{self.pipeline.recovery_length}, {self.pipeline.recovery_parts}"

    @property
    def restarts_measured(self) -> int:
        """Return how many restarts that rests on; 0: none was measured."""
        return self.pipeline.restarts.count if self.pipeline is not None and self.pipeline.restarts is not None else 0

    @property
    def advice(self) -> str:
        """Return what stands, with its figures, and what to set, in sentences."""
        said = [self._timed_out(), self._left(), self._remedy()]
        return " ".join(filter(None, said))

    def _timed_out(self) -> str:
        known = self.lengths
        if not known.timed_out:
            return ""
        total = known.timed_out + known.ended
        what = f"{known.timed_out:,} of {total:,} transactions" if total > 1 else "Its one transaction"
        was = "were" if known.timed_out > 1 else "was"
        head = f"{what} {was} aborted at the timeout of {seconds(known.timeout_ms)}"
        if known.p99_ms is None or 2 * known.p99_ms > known.timeout_ms:
            return f"{head}."
        return f"{head}: stuck or abandoned, since 99 of 100 others ended within {seconds(known.p99_ms)}."

    def _left(self) -> str:
        timeout_ms, usual_ms = self.lengths.timeout_ms, self.lengths.p99_ms
        usual = f" (99 of 100 transactions end within {seconds(usual_ms)})" if usual_ms is not None else ""
        left = (
            f"Of {seconds(timeout_ms)}, {seconds(max(0, timeout_ms - (usual_ms or 0)))} are left for a restart{usual}."
        )
        if (risk := self._risk_of_a_restart) is TimeoutRisk.NOT_MEASURED:
            return f"Not measured yet: no restart was seen. {left} {self._assumed()}."
        return f"{left} {self._restarts()}: {_ENOUGH_FOR[risk]}."

    def _restarts(self) -> str:
        """Return how long restarts took, or are assumed to take, in words."""
        measured, longest = self.pipeline.restarts if self.pipeline is not None else None, seconds(self.recovery_ms)
        if measured is None:
            return f"{self._assumed()} (none was seen yet)"
        if measured.count == 1:
            return f"The last restart took {longest}"
        took = f"{seconds(measured.median_ms)} and {longest}" if measured.count == 2 else f"up to {longest}"
        return f"The last {measured.count} restarts took {took}"

    def _assumed(self) -> str:
        """Return what is assumed of a restart: of ours its settings say the least, of others nothing is known."""
        if self.pipeline is None:
            return f"A restart is assumed to take {seconds(self.assumed_recovery_ms)}"
        return f"By its settings a restart takes {self.pipeline.recovery_length}"

    def _remedy(self) -> str:
        if self.left_ms >= self.recovery_ms:
            return ""
        enough_ms = _rounded_up((self.lengths.p99_ms or 0) + 2 * self.recovery_ms)
        if self.left_ms < 0 and self.pipeline is not None:
            interval_ms = (self.pipeline.interval_ms + self.left_ms) // 1000 * 1000
            other = f", or the interval to {seconds(interval_ms)}" if interval_ms >= SHORTEST_INTERVAL_MS else ""
        else:
            other = ""
        allowed = (
            "; brokers allow 15 min unless transaction.max.timeout.ms says more" if enough_ms > MAX_TIMEOUT_MS else ""
        )
        return f"Set transaction.timeout.ms={enough_ms} ({seconds(enough_ms)}) or more{other}{allowed}."


def by_risk(timeout: Timeout) -> tuple[int, int, str]:
    """Return the sort key of a timeout: the worst first, then the least that is left."""
    return RISKS.index(timeout.risk), timeout.left_ms, timeout.lengths.application


def _rounded_up(length_ms: int) -> int:
    step_ms = _STEP_MS if length_ms <= _LONG_MS else _MINUTE_MS
    return -(-length_ms // step_ms) * step_ms
