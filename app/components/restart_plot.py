"""The measured restarts of a pipeline as columns, against its timeout and what usual transactions leave of it."""

from __future__ import annotations

from statistics import median_low

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import at, duration, exact_time
from indoubt.app.components.value_axis import ValueAxis
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import MeasuredRestart, TimeoutRow

LABELLED = 8
"""More columns have no room for their lengths."""


def restart_plot(timeout: TimeoutRow) -> Html | None:
    """Return the picture, None where no restart was measured; a column that reaches the dashed line came too late."""
    took_ms = [restart.took_ms for restart in timeout.restarts]
    if not took_ms:
        return None
    left_ms = max(0, timeout.timeout_ms - (timeout.p99_ms or 0))
    # Above the highest column stands its length.
    values = ValueAxis.from_zero(round(1.2 * max(*took_ms, timeout.timeout_ms)))
    few = "few" if len(took_ms) <= LABELLED else ""
    columns = [_column(restart, left_ms, values, bool(few)) for restart in timeout.restarts]
    area = el(
        "div",
        *columns,
        el("i", class_="line-at timeout", style=f"bottom:{values.height(timeout.timeout_ms):.1f}%"),
        el("i", class_="line-at", style=f"bottom:{values.height(left_ms):.1f}%"),
        class_=f"restarts-area {few}",
        role="img",
        aria_label=f"{counted(len(took_ms), 'measured restart')} against the timeout",
    )
    says = f"median {duration(median_low(took_ms))}, longest {duration(max(took_ms))}"
    caption = el(
        "figcaption",
        f"{counted(len(took_ms), 'measured restart')} ", el("b", says),
        el("span", el("i", class_="swatch timeout-line", aria_hidden="true"), f"timeout {duration(timeout.timeout_ms)}"),
        el("span", el("i", class_="swatch left-line", aria_hidden="true"), f"{duration(left_ms)} left by 99 of 100 transactions"),
    )  # fmt: skip
    labelled = [el("div", at(restart.committed_at_ms)) for restart in timeout.restarts]
    below = labelled if len(labelled) <= LABELLED else [labelled[0], labelled[-1]]
    return el(
        "figure",
        caption,
        el("div", values.labels(), area, class_="with-values"),
        el("div", el("div", *below, class_=f"restart-times {few}"), class_="of-values"),
        class_="plot durations restarts",
    )


def _column(restart: MeasuredRestart, left_ms: int, values: ValueAxis, is_labelled: bool) -> Html:
    tone = "urgent" if restart.took_ms > left_ms else "warning" if 2 * restart.took_ms > left_ms else ""
    says = f"run {restart.run}, first commit {exact_time(restart.committed_at_ms)}: {duration(restart.took_ms)}"
    bar = el("i", class_=f"restart-bar {tone}".rstrip(), style=f"height:{values.height(restart.took_ms):.1f}%")
    return el("div", is_labelled and el("small", duration(restart.took_ms)), bar, title=says)
