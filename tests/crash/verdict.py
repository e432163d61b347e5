"""The result of a run, and the figures of many runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.crash.judge import Anomaly
from tests.crash.schedule import Schedule, schedule_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's findings in a run.

    ``rows_checked``: how many rows the final readers got; ``struck``: how many faults the run survived; ``signals``: counts by
    signal and process; ``lost_rows``: rows of decided transactions that recovery found aborted and that were replayed;
    ``notes``: the faults' observations; ``log_tail``: the end of the pipeline's log.
    """

    schedule: Schedule
    anomalies: tuple[Anomaly, ...]
    records: int
    rows_checked: int
    struck: int
    signals: Counter[str]
    seconds: float
    restarts: int
    lost_rows: int
    notes: tuple[str, ...]
    log_tail: str

    @property
    def clean(self) -> bool:
        """True if there is no anomaly."""
        return not self.anomalies

    def __str__(self) -> str:
        result = "clean" if self.clean else "; ".join(map(str, self.anomalies))
        lost = f", {self.lost_rows} rows lost after their decision" if self.lost_rows else ""
        sent = f"{self.struck} faults, {self.signals.total()} signals, {self.restarts} restarts"
        did = f"{self.records} records, {self.rows_checked} rows checked, {sent}{lost}, {self.seconds:.0f} s"
        return f"seed {self.schedule.seed}: {did}: {result}"

    def report(self) -> str:
        """Return the full report: the schedule, the anomalies, and how to run it again."""
        return "\n".join(
            [
                f"SEED {self.schedule.seed} FAILED",
                str(self.schedule),
                *map(str, self.anomalies),
                *(f"note: {note}" for note in self.notes),
                f"again: {again(self.schedule)}",
                f"the pipeline's log ends:\n{self.log_tail}",
            ]
        )


def again(schedule: Schedule) -> str:
    """Return the command that runs a schedule again."""
    faults = [strike.fault for strike in schedule.strikes]
    command = f".venv/bin/python -m tests.crash --seed {schedule.seed}{' --cluster' if schedule.on_cluster else ''}"
    command += f" --files {schedule.files}" if schedule.files else ""
    if schedule == schedule_of(schedule.seed, on_cluster=schedule.on_cluster, files=schedule.files):
        return command
    command += f" --faults {','.join(faults)}"
    if schedule == schedule_of(schedule.seed, faults, on_cluster=schedule.on_cluster, files=schedule.files):
        return command
    return f"{command} --records {schedule.strikes[0].records}"


def figures(verdicts: Sequence[Verdict], seconds: float) -> str:
    """Return some lines with the figures of all runs; ``seconds``: how long all of them took."""
    if not verdicts:
        return "no seed was judged"
    faults = Counter(strike.fault for v in verdicts for strike in v.schedule.strikes[: v.struck])
    signals = sum((v.signals for v in verdicts), Counter[str]())
    longest = max(verdicts, key=lambda v: v.seconds)
    mean_s = sum(v.seconds for v in verdicts) / len(verdicts)
    uris = sum(v.schedule.checkpoint_is_uri for v in verdicts)
    return "\n".join(
        [
            f"{len(verdicts)} seeds in {seconds:,.0f} s; one takes {mean_s:.0f} s, the longest ({longest.schedule.seed}) "
            f"{longest.seconds:.0f} s; {uris} with the checkpoint as a URI",
            f"{sum(v.records for v in verdicts):,} records produced, {sum(v.rows_checked for v in verdicts):,} rows checked, "
            f"{sum(v.restarts for v in verdicts):,} restarts, {sum(v.lost_rows for v in verdicts):,} rows lost after their "
            "decision and written again",
            f"{faults.total():,} faults struck: {_listed(faults)}",
            f"{signals.total():,} signals: {_listed(signals)}",
        ]
    )


def summary(verdicts: Sequence[Verdict], failed: Sequence[int], seconds: float) -> str:
    """Return a line: how many seeds were clean, and what was checked. ``failed``: the other seeds, also those not judged."""
    seeds = sum(v.clean for v in verdicts) + len(failed)
    return (
        f"{seeds - len(failed)} of {seeds} seeds clean: {sum(v.rows_checked for v in verdicts):,} rows checked, "
        f"{sum(v.struck for v in verdicts):,} faults, {sum(v.signals.total() for v in verdicts):,} signals, {seconds:,.0f} s"
        + (f"; failed: {', '.join(map(str, failed))}" if failed else "")
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
