"""Timeouts: is each timeout long enough for a usual transaction and a restart on top of it?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.client.collector_connection import Rows
from indoubt.app.components import list_menu
from indoubt.app.components.links_and_buttons import card_with_buttons, link
from indoubt.app.components.markup import Html, el, join, widget_token
from indoubt.app.components.paging import PAGE, ROWS, page_in_address, page_links, rows_a_page, size_of
from indoubt.app.components.plot_axis import PlotAxis
from indoubt.app.components.time_text import at, duration, exact_time, since, time_left
from indoubt.app.components.value_axis import ValueAxis
from indoubt.app.components.verdict_signs import Tone, WordSigns, sign_of, word_badge, words_there
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens.sections import SHOW, in_address
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import MeasuredRestart, TimeoutRow

CARDS_A_PAGE = 20
_RISKS: WordSigns = {
    "timed out": ("✖", Tone.WARNING, "it has aborted transactions"),
    "too short": ("△", Tone.WARNING, "a restart takes longer than is left"),
    "tight": ("≈", Tone.NOTICE, "enough for one restart, too short for two"),
    "not measured": ("?", Tone.CALM, "no restart was seen yet: how long one takes is assumed"),
    "enough": ("✔", Tone.GOOD, "enough for two restarts"),
}  # fmt: skip
"""Sign, tone and meaning of a timeout's risk (docs/api.md), the worst first."""
LABELLED = 8
"""More columns have no room for their lengths."""


def show() -> None:
    """Write the section."""
    list_menu.show("timeouts", live.collector().timeouts, page_size=CARDS_A_PAGE)
    show_region("timeouts", in_address(SHOW, PAGE) | {ROWS: str(rows_a_page(CARDS_A_PAGE))})


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a card for each application, one block each."""
    rows = client.timeouts()
    content: RegionContent = {"head": el("h3", "Is each timeout long enough?", el("small", _how_many(rows)))}
    if not rows:
        content["none"] = el("p", "No transaction ended in the last 24 hours, and none is open.", class_="empty")
    shown, number, pages = page_in_address(rows, query, page_size=size_of(query, CARDS_A_PAGE))
    for timeout in shown:
        content[f"timeout-{widget_token(timeout.pipeline)}"] = _card(timeout)
    if links := page_links("/pipelines", query, number, pages):
        content["pages"] = links
    if rows.more:
        content["more"] = el("p", f"{counted(rows.more, 'other application')} not shown.", class_="more")
    return content


def _how_many(rows: Rows[TimeoutRow]) -> str:
    parts = [f"{count:,} {word}" for word, count in words_there(_RISKS, (timeout.risk for timeout in rows)).items()]
    return f" {', '.join(parts)}, from the last 24 hours" if parts else ""


def _card(timeout: TimeoutRow) -> Html:
    _, tone, _ = sign_of(_RISKS, timeout.risk)
    counts = f" · timeout {duration(timeout.timeout_ms)} · {counted(timeout.transactions, 'transaction')}"
    name = link(page_paths.pipeline(timeout.pipeline), el("b", timeout.pipeline, class_="name"))
    title = el("div", word_badge(_RISKS, timeout.risk), name, counts, class_="title")
    why = el("div", timeout.advice, class_="why")
    text = el("div", title, why, _strip(timeout), restart_plot(timeout), _facts(timeout), class_="said")
    oldest = timeout.oldest_key and link(
        page_paths.transaction(timeout.oldest_key), "Oldest open", class_="press", is_opening=True
    )
    button = oldest or link(page_paths.pipeline(timeout.pipeline), "Open", class_="press", is_opening=True)
    return card_with_buttons(tone, text, buttons=[button])


def _strip(timeout: TimeoutRow) -> Html:
    """Return a ruler from opening to abort, with marks for how long transactions were open and how long a restart takes."""
    lengths = (
        ("p50", timeout.p50_ms),
        ("p95", timeout.p95_ms),
        ("p99", timeout.p99_ms),
        ("longest", timeout.longest_ms),
    )
    axis = PlotAxis(from_ms=0, until_ms=timeout.timeout_ms)
    usual = el("i", class_="usual", style=f"width:{axis.place(timeout.p99_ms or 0):.2f}%",
               title=f"99 of 100 transactions were open for at most {duration(timeout.p99_ms)}")  # fmt: skip
    ticks = [
        el(
            "i",
            class_="mark",
            style=f"left:{axis.place(length_ms):.2f}%",
            title=f"{which}: {duration(length_ms)}",
        )
        for which, length_ms in lengths
        if length_ms is not None
    ]
    restart = el("i", class_="restart", style=f"width:{axis.place(timeout.recovery_ms):.2f}%",
                 title=f"a restart takes {timeout.recovery}")  # fmt: skip
    takes = "a restart takes" if timeout.restarts else "a restart, assumed:"
    ends = el("div", el("span", "opened"), el("span", f"{takes} {duration(timeout.recovery_ms)}"),
              el("span", f"aborted after {duration(timeout.timeout_ms)}", class_="edge-text"), class_="ruler-ends")  # fmt: skip
    ruler = el("div", usual, restart, *ticks, el("i", class_="edge"), class_="ruler", aria_hidden="true")
    return el("div", ruler, ends, class_="life")


def _facts(timeout: TimeoutRow) -> Html:
    return el(
        "div",
        *_lengths(timeout),
        el("span", f"a restart takes {timeout.recovery}"),
        *_open_now(timeout),
        class_="facts-line",
    )


def _lengths(timeout: TimeoutRow) -> Sequence[Html]:
    if timeout.longest_ms is None:
        return [el("span", "none ended in time" if timeout.timed_out else "none ended in the last 24 hours")]
    middle = el("span", f"open for {duration(timeout.p50_ms)} (p50), {duration(timeout.p99_ms)} (p99)")
    return [middle, el("span", f"longest {duration(timeout.longest_ms)}: ", el("code", timeout.longest_transaction))]


def _open_now(timeout: TimeoutRow) -> Sequence[Html]:
    if not timeout.open:
        return []
    left = (
        join([", time left ", time_left(timeout.oldest_deadline_ms)]) if timeout.oldest_deadline_ms is not None else ""
    )
    return [el("span", f"{timeout.open:,} open, the oldest ", since(timeout.oldest_opened_at_ms), left)]


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
