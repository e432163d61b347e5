"""One application over time, in four plots: its commits, its checkpoints, what was left of its timeout, its readers' lag."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from indoubt.app.components.duration_plot import gap_name
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el
from indoubt.app.components.small_plots import SIGNS, Bars, bar_plot, combined, marks_of, most, newest, total
from indoubt.app.components.time_text import ago, amount, at, duration
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.durations import MINUTE_MS, SECOND_MS
from indoubt.lifecycle.rows.series import (
    ApplicationSeries,
    CheckpointGapsRow,
    MarkKind,
    Series,
    SeriesMark,
)

COLUMNS = 4
LONG_WAIT_MS = 10_000
"""Readers wait for each transaction that is open: a shorter wait is none to speak of."""
SOON, DANGER = 0.5, 0.8
"""Shares of a timeout that a transaction has used."""
RATE_OF_MS = 5 * MINUTE_MS
WARNING, URGENT = "warning", "urgent"


def is_quiet(row: ApplicationSeries, series: Series) -> bool:
    """Say whether nothing of an application is to be seen in this time."""
    every = (row.commits, row.aborts, row.lost, row.hidden, row.lag, row.longest_open_ms, row.checkpoint_ms)
    return not any(map(most, every)) and (row.last_commit_ms or 0) < series.from_ms


def application_row(series: Series, row: ApplicationSeries, gaps: CheckpointGapsRow | None) -> Html:
    """Return the name of an application, and its plots side by side; what is nothing but zeros is left out."""
    marks = marks_of(row.pipeline, series.marks)
    plots = [
        _commits(series, row, marks),
        _checkpoints(series, row, gaps, marks),
        _timeout(series, row, marks),
        _readers(series, row, marks),
    ]
    return el("section", _name(row, marks), *plots, class_="series")


def _name(row: ApplicationSeries, marks: Sequence[SeriesMark]) -> Html:
    if not row.pipeline:
        return el("h3", "Holder not known", el("small", " no transaction is known that hides these records"))
    said: list[Html] = []
    if row.last_commit_ms is not None:
        said.append(el("small", "last commit ", ago(row.last_commit_ms)))
    # Alerts that fire stand above; one that is over is no news.
    if events := [mark for mark in marks if mark.kind is not MarkKind.ALERT]:
        last = events[-1]
        said.append(el("small", at(last.at_ms), f" {SIGNS.get(last.kind, '•')} {last.text}", class_="last-mark"))
    return el("div", el("h3", link(page_paths.pipeline(row.pipeline), row.pipeline)), *said, class_="of-application")


def _commits(series: Series, row: ApplicationSeries, marks: Sequence[SeriesMark]) -> Html:
    undone = combined(add, row.aborts, row.lost)
    if not total(row.commits) and not total(undone):
        return Html("")
    says = [_rate(series, row.commits), el("small", f" {amount(total(undone))} aborted") if total(undone) else ""]
    per = duration(series.bucket_ms)

    def text(value: int) -> str:
        return f"{amount(value)} in {per}"

    bars = [Bars(values=row.commits), Bars(values=undone, tone=WARNING)]
    return bar_plot(series, "commits", says, bars, text=text, kind="first", marks=marks)


def _rate(series: Series, values: Sequence[int | None]) -> str:
    """Return how many there were a second, or a minute where they are fewer, in the last minutes that are known."""
    count = max(1, RATE_OF_MS // series.bucket_ms)
    known = [value for value in values[:-1] if value is not None][-count:]
    if not known:
        return "–"
    a_second = sum(known) * SECOND_MS / (len(known) * series.bucket_ms)
    return f"{amount(a_second)} / s" if a_second >= 1 else f"{amount(round(60 * a_second))} / min"


def _checkpoints(
    series: Series, row: ApplicationSeries, gaps: CheckpointGapsRow | None, marks: Sequence[SeriesMark]
) -> Html:
    if not total(row.checkpoint_ms) and gaps is None:
        return Html("")
    shown = (
        [gap for gap in gaps.gaps if gap.until_ms > series.from_ms and gap.from_ms < series.until_ms] if gaps else []
    )
    spans = [(gap.from_ms, gap.until_ms, URGENT if gap.ongoing else "") for gap in shown]
    below = [gap_name(gap) for gap in shown[-1:]] + (_failed(gaps, series) if gaps is not None else [])
    says = f"p50 {duration(row.checkpoint_p50_ms)}" if row.checkpoint_p50_ms is not None else "–"
    bars = [Bars(values=row.checkpoint_ms)]
    return bar_plot(
        series, "checkpoints", says, bars, text=_longest, kind="second", spans=spans, marks=marks, below=below
    )


def _failed(gaps: CheckpointGapsRow, series: Series) -> list[Html]:
    """Return the newest checkpoint that failed, and one that has not ended."""
    said = [
        el("small", at(one.at_ms), f": checkpoint {one.number} failed: {one.reason}", class_="gap-name")
        for one in gaps.failures[-1:]
        if one.at_ms >= series.from_ms
    ]
    running = [one for one in gaps.hung if one.until_ms >= series.now_ms - series.bucket_ms]
    if any(gap.ongoing for gap in gaps.gaps):
        return said  # the gap names it
    return said + [el("small", one.name, class_="gap-name ongoing") for one in running[-1:]]


def _timeout(series: Series, row: ApplicationSeries, marks: Sequence[SeriesMark]) -> Html:
    opened = row.longest_open_ms
    if not total(opened):
        return Html("")
    timeout_ms = row.timeout_ms
    if not timeout_ms:
        bars = [Bars(values=opened)]
        return bar_plot(
            series, "open", f"up to {duration(most(opened))}", bars, text=_longest, kind="third", marks=marks
        )
    last = len(opened) - 1
    used = [None if value is None else value / timeout_ms for value in opened]
    tones = [
        "" if share is None or share < SOON else URGENT if number == last and share >= DANGER else WARNING
        for number, share in enumerate(used)
    ]
    bars = [
        Bars(values=[_only(value, of == tone) for value, of in zip(opened, tones, strict=True)], tone=tone)
        for tone in ("", WARNING, URGENT)
    ]
    least = max(0, timeout_ms - most(opened))

    def text(value: int) -> str:
        return f"{duration(max(0, timeout_ms - value))} left"

    says = f"{duration(least) if least else 'nothing'} of {duration(timeout_ms)}"
    return bar_plot(series, "left of timeout", says, bars, text=text, kind="third", full=timeout_ms, marks=marks)


def _readers(series: Series, row: ApplicationSeries, marks: Sequence[SeriesMark]) -> Html:
    if not (total(row.lag) or total(row.hidden) or row.managed):
        return Html("")
    unread = combined(max, row.lag, row.hidden)
    long = [(wait or 0) >= LONG_WAIT_MS for wait in row.longest_wait_ms]
    tone = URGENT if long[-1] else WARNING
    bars = [
        Bars(values=[_only(value, not waited) for value, waited in zip(unread, long, strict=True)]),
        Bars(values=[_only(value, waited) for value, waited in zip(unread, long, strict=True)], tone=tone),
    ]
    longest_ms = most(row.longest_wait_ms)
    waited = el("small", f" waited up to {duration(longest_ms)}") if longest_ms >= LONG_WAIT_MS else ""

    def text(value: int) -> str:
        return f"{amount(value)} not read"

    return bar_plot(
        series, "readers' lag", [amount(newest(unread)), waited], bars, text=text, kind="fourth", marks=marks
    )


def _longest(value: int) -> str:
    return f"longest {duration(value)}" if value else "none"


def _only(value: int | None, is_of_it: bool) -> int | None:
    return None if value is None else value if is_of_it else 0
