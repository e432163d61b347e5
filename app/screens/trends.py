"""Trends: each application over 90 days, as the job over archived history counted them."""

from __future__ import annotations

from operator import sub

from indoubt.app import live
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components.links_and_buttons import link
from indoubt.app.components.markup import Html, el, join, widget_token
from indoubt.app.components.small_plots import Bars, bar_plot, combined, most, newest, total
from indoubt.app.components.time_text import ago, amount, day_of, duration
from indoubt.app.dialogs.button_clicks import show_region
from indoubt.app.regions.region_content import Query, RegionContent
from indoubt.app.screens.sections import search_field
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.trends import ApplicationTrend, Trends

PIPELINE = "trend-pipeline"
MOST_APPLICATIONS = 20
COLUMNS = 4
NO_ARCHIVE = "History is not archived: set INDOUBT_HISTORY_ARCHIVE, and run indoubt pipeline history-rollup once a day."
NOTHING_MADE = "Nothing was computed yet: the job indoubt pipeline history-rollup makes it of archived history."
WARNING, URGENT = "warning", "urgent"


def show() -> None:
    """Write the section."""
    pipeline = search_field(PIPELINE, "application, its whole name")
    live.write(el("h3", "Trends", el("small", " by day (UTC), 90 days")))
    show_region("trends", {"pipeline": pipeline})


def render(client: CollectorClient, query: Query) -> RegionContent:
    """Return a block for each application, those that lost most first, and the times of their axis."""
    pipeline = query.get("pipeline", "")
    trends = client.trends(pipeline=pipeline, limit=MOST_APPLICATIONS)
    content: RegionContent = {"head": _head(trends, pipeline)}
    for row in trends.applications:
        content[f"of-{widget_token(row.pipeline)}"] = _application(trends, row)
    if trends.applications:
        content["axis"] = _axis(trends)
    return content


def _head(trends: Trends, pipeline: str) -> Html:
    if trends.made_at_ms is None:
        return el("p", NOTHING_MADE if trends.is_archived else NO_ARCHIVE, class_="empty")
    if not trends.applications:
        return el("p", f"Nothing of {pipeline} in these days.", class_="empty")
    more = trends.more and el("span", f"{counted(trends.more, 'quieter application')} not shown")
    return el("p", el("span", "computed ", ago(trends.made_at_ms)), more or "", class_="facts-line")


def _axis(trends: Trends) -> Html:
    """Return the days under each column of plots."""
    last_ms = trends.until_ms - trends.bucket_ms
    days = [el("span", day_of(at_ms)[:10]) for at_ms in (trends.from_ms, (trends.from_ms + last_ms) // 2, last_ms)]
    columns = [el("div", *days, class_="axis") for _ in range(COLUMNS)]
    return el("div", *columns, class_="series axes", aria_hidden="true")


def _application(trends: Trends, row: ApplicationTrend) -> Html:
    name = el("div", el("h3", link(page_paths.pipeline(row.pipeline), row.pipeline)), class_="of-application")
    plots = [_ends(trends, row), _open(trends, row), _margin(trends, row), _ids(trends, row)]
    return el("section", name, *plots, class_="series")


def _ends(trends: Trends, row: ApplicationTrend) -> Html:
    """Return commits, what was aborted, and what of it is lost, by day; of databases what left their lists."""
    if not total(row.committed) and not total(row.aborted):
        if not total(row.branches):
            return Html("")
        says = counted(total(row.branches), "branch", "branches")
        return _plot(trends, "ended", says, [Bars(values=row.branches)], "first", "branch", "branches")
    harmless = combined(sub, row.aborted, row.lost)
    bars = [
        Bars(values=row.committed),
        Bars(values=harmless, tone=WARNING),
        Bars(values=row.lost, tone=URGENT),
    ]
    said = [amount(total(row.committed)), el("small", f" {amount(total(row.aborted))} aborted")]
    if lost := total(row.lost):
        said.append(el("small", f", {amount(lost)} lost"))
    causes = ", ".join(f"{one.cause.value} {amount(total(one.aborts))}" for one in row.causes)
    below = [el("small", f"aborted: {causes}")] if causes else []
    return _plot(trends, "commits", join(said), bars, "first", "transaction", below=below)


def _open(trends: Trends, row: ApplicationTrend) -> Html:
    """Return how long the longest transaction of each day was open, or the longest branch prepared: so long it was in doubt."""
    longest, what = (row.open_longest_ms, "open") if total(row.open_longest_ms) else (row.branch_longest_ms, "prepared")
    if not total(longest):
        return Html("")
    p99 = newest(row.open_p99_ms)
    says = f"longest {duration(most(longest))}" + (f", p99 now {duration(p99)}" if p99 is not None else "")
    bars = [Bars(values=longest)]
    return bar_plot(trends, f"{what} for", says, bars, text=lambda value: f"longest {duration(value)}", kind="second")


def _margin(trends: Trends, row: ApplicationTrend) -> Html:
    """Return what the one that came nearest to its timeout had left, on each day."""
    known = [value for value in row.margin_least_ms if value is not None]
    timeout_ms = newest(row.timeout_ms)
    if not known or timeout_ms is None:
        return Html("")
    says = f"least {duration(min(known))} of {duration(timeout_ms)}"
    return bar_plot(
        trends,
        "left of the timeout",
        says,
        [Bars(values=[None if value is None else max(0, value) for value in row.margin_least_ms])],
        text=lambda value: f"{duration(value)} left",
        kind="third",
        full=max(most(row.timeout_ms), 1),
    )


def _ids(trends: Trends, row: ApplicationTrend) -> Html:
    """Return how many ids were used on each day, and how many of them were new."""
    if not total(row.ids):
        return Html("")
    known = combined(sub, row.ids, row.new_ids)
    bars = [Bars(values=known), Bars(values=row.new_ids, tone=WARNING)]
    says = [amount(newest(row.ids)), el("small", f" {amount(newest(row.new_ids))} new on the last day")]
    return _plot(trends, "ids", join(says), bars, "fourth", "id")


def _plot(
    trends: Trends,
    name: str,
    says: object,
    bars: list[Bars],
    place: str,
    noun: str,
    plural: str | None = None,
    below: list[Html] | None = None,
) -> Html:
    def text(value: int) -> str:
        return counted(value, noun, plural) if plural else counted(value, noun)

    return bar_plot(trends, name, says, bars, text=text, kind=place, below=below or [])
