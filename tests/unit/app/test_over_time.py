"""Applications over time: what the small plots show, and what they do not pretend."""

from __future__ import annotations

import re

import pytest

from indoubt.app import live
from indoubt.app.components.small_plots import Bars, bar_plot
from indoubt.app.regions.region_content import RegionContent, kept_for
from indoubt.app.screens import over_time
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.rows.series import TimeAxis
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import application_series, checkpoint_gap, checkpoint_gaps, series
from tests.unit.app.contract_rows import now_ms
from tests.unit.app.page_driver import HOSTILE, knowing, opened, said

pytestmark = pytest.mark.slow
MINUTE_MS = 60_000
FIVE = TimeAxis(now_ms=5 * MINUTE_MS, from_ms=0, until_ms=5 * MINUTE_MS, bucket_ms=MINUTE_MS)
QUIET = {"aborts": [0] * 4, "lost": [0] * 4, "waiting": [0] * 4, "longest_wait_ms": [0] * 4, "hidden": [0] * 4}


answers = knowing(lambda: Answers(series=series(application_series())))


def drawn(pipeline: str = "") -> RegionContent:
    return over_time.render(live.collector(), {"window": "1 h", "pipeline": pipeline})


def paths(markup: object, kind: str) -> list[str]:
    """Return the drawing of each path of this class."""
    return re.findall(rf'<path d="([^"]*)" class="{kind}"', str(markup))


def heights(path: str) -> list[int]:
    return [int(height) for height in re.findall(r"v-(\d+)", path)]


def test_each_application_has_its_plots_with_what_they_amount_to(answers):
    page = said(opened("overview"))
    for text in ("commits <b>6 / min<small> 3 aborted</small></b>", "checkpoints <b>p50 750 ms</b>",
                 "left of timeout <b>12 s of 1 min 00 s</b>", "readers&#x27; lag <b>48<small> waited up to 1 min 05 s</small></b>",
                 page_paths.pipeline("ip-count"), "last commit <time data-ago="):  # fmt: skip
        assert text in page, text


def test_what_nobody_looked_at_is_hatched_and_is_no_zero(answers):
    page = said(opened("overview"))
    assert page.count('<i class="unseen" style="left:50.00%;width:25.00%">') == 4
    commits = bar_plot(FIVE, "commits", "", [Bars(values=[4, 8, None, 0, 0])], text=str)
    assert re.findall(r"M(\d+).5 72v-(\d+)", "".join(paths(commits, "bars"))) == [("0", "36"), ("1", "72")]
    assert "commits over time, not observed all of the time" in page


def test_small_counts_beside_others_are_seen(answers):
    plot = bar_plot(FIVE, "commits", "", [Bars(values=[1_000, 1, 500, 0, 700])], text=str)
    assert heights("".join(paths(plot, "bars"))) == [72, 2, 36, 50]


def test_one_value_does_not_flatten_all_others(answers):
    plot = bar_plot(FIVE, "checkpoints", "", [Bars(values=[29_000, 700, 800, 900, 800])], text=str)
    assert all(height > 40 for height in heights("".join(paths(plot, "bars"))))
    assert "log scale" in plot
    assert "log scale" not in bar_plot(FIVE, "checkpoints", "", [Bars(values=[900, 700, 800, 900, 800])], text=str)


def test_what_was_undone_stands_on_what_was_committed(answers):
    plot = bar_plot(
        FIVE, "", "", [Bars(values=[6, 6, 8, 8, 8]), Bars(values=[0, 2, 0, 0, 0], tone="warning")], text=str
    )
    assert paths(plot, "bars warning") == ["M1.5 18v-18"]


def test_in_health_nothing_is_coloured(answers):
    answers.series = series(application_series(**QUIET, longest_open_ms=[400, 700, 500, 600]))
    page = str(drawn())
    assert not re.search(r"warning|urgent|ongoing", page)
    assert "aborted" not in page
    assert "waited" not in page


def test_red_is_what_is_trouble_now(answers):
    answers.series = series(application_series(longest_open_ms=[400, 58_000, 500, 600]))
    assert len(paths(drawn(), "bars warning")) == 3, "aborts, a long transaction, a long wait"
    assert not paths(drawn(), "bars urgent")
    now = application_series(longest_open_ms=[400, 400, 400, 58_000], longest_wait_ms=[0, 0, 0, 30_000])
    answers.series = series(now)
    assert len(paths(drawn(), "bars urgent")) == 2


def test_what_is_nothing_but_zeros_is_left_out(answers):
    nothing = [0] * 4
    answers.series = series(
        application_series(**QUIET, managed=False, checkpoint_ms=nothing, lag=nothing),
        application_series(
            "idle",
            **QUIET,
            commits=nothing,
            checkpoint_ms=nothing,
            lag=nothing,
            longest_open_ms=nothing,
            last_commit_ms=1,
        ),
    )
    page = str(drawn())
    assert "commits" in page
    assert "checkpoints" not in page
    assert "lag" not in page
    assert "idle" not in page
    assert "1 quieter application not shown" in page


def test_an_application_without_a_timeout_shows_how_long_it_is_open(answers):
    answers.series = series(application_series(timeout_ms=0))
    assert "open <b>up to 48 s</b>" in str(drawn())


def test_marks_of_the_application_stand_at_their_times_in_all_plots(answers):
    at = answers.series["from_ms"] + 60_000
    answers.series["marks"] = [
        {"at_ms": at, "kind": "order", "pipeline": "ip-count", "text": "commit by anna"},
        {"at_ms": at + 500, "kind": "alert", "pipeline": "ip-count", "text": "A1: it is over"},
        {"at_ms": at, "kind": "alert", "pipeline": "another", "text": "not this one"},
    ]
    page = said(opened("overview"))
    assert paths(page, "mark-lines") == ["M1.0 0v72"] * 4, "two at one moment are one line"
    assert re.search(rf'<time data-at="{at}">[^<]*</time> ◆ commit by anna', page)
    assert "not this one" not in page
    assert "it is over" not in page, "an alert of then is no news"


def test_a_gap_that_is_over_is_named_with_its_time_and_is_no_warning(answers):
    now = now_ms()
    gaps = [checkpoint_gap(now - 230_000, now - 200_000), checkpoint_gap(now - 190_000, now - 20_000)]
    answers.checkpoint_gaps = [checkpoint_gaps(gaps=gaps)]
    page = said(opened("overview"))
    assert len(paths(page, "gap ")) == 2
    assert re.search(
        rf'"gap-name"><time data-at="{now - 190_000}">[^<]*</time>: no checkpoint for 170 s \(the driver was frozen\)',
        page,
    )
    assert page.count("gap-name") == 1, "names do not stand over each other"


def test_a_gap_that_goes_on_is_a_warning(answers):
    now = now_ms()
    answers.checkpoint_gaps = [checkpoint_gaps(gaps=[checkpoint_gap(now - 20_000, now, ongoing=True)])]
    page = said(opened("overview"))
    assert len(paths(page, "gap urgent")) == 1
    (name,) = re.findall(r'<small class="gap-name ongoing">(.*?)</small>', page)
    assert name.endswith("</time>: no checkpoint for 20 s (the driver was frozen)")


def test_failed_and_hung_checkpoints_are_named(answers):
    now = now_ms()
    failure = {"number": 2, "at_ms": now - 60_000, "failures": 1, "reason": "no space left"}
    hung = {"number": 3, "started_at_ms": now - 50_000, "until_ms": now, "name": "checkpoint 3 did not end within 50 s"}
    answers.checkpoint_gaps = [checkpoint_gaps(failures=[failure], hung=[hung])]
    page = said(opened("overview"))
    assert "checkpoint 2 failed: no space left" in page
    assert "checkpoint 3 did not end within 50 s" in page
    answers.checkpoint_gaps[0]["gaps"] = [checkpoint_gap(now - 50_000, now, ongoing=True)]
    assert "checkpoint 3 did not end within 50 s" not in str(drawn()), "the gap names it"


def test_times_without_data_are_said_in_words(answers):
    start = int(answers.series["from_ms"])
    answers.series["gaps"] = [
        {"source": "collector", "from_ms": start, "until_ms": start + 60_000,
         "text": "no data for 1 min 00 s: the collector had not run yet"},
        {"source": "partitions", "from_ms": start + 90_000, "until_ms": start + 150_000,
         "text": "no data of partitions for 1 min 00 s"},
    ]  # fmt: skip
    head = str(drawn()["head"])
    assert re.search(
        rf'no data before <time data-at="{start + 60_000}">[^<]*</time>: the collector had not run yet', head
    )
    assert re.search(rf'<time data-at="{start + 90_000}">[^<]*</time>: no data of partitions for 1 min 00 s', head)


def test_every_plot_has_the_values_that_its_crosshair_says(answers):
    values = re.findall(r'data-values="([^"]*)"', str(drawn()))
    assert values[0] == "4 in 1 min 00 s|11 in 1 min 00 s|no data|0 in 1 min 00 s"
    assert values[2] == "59 s left|12 s left|no data|59 s left"


def test_the_time_that_is_shown_is_chosen_and_asked_for(answers, monkeypatch):
    asked: list[int] = []
    real = over_time.CollectorClient.series
    monkeypatch.setattr(
        over_time.CollectorClient, "series", lambda self, **what: asked.append(what["window_ms"]) or real(self, **what)
    )
    page = opened("overview")
    assert page.segmented_control(key="window").value == "1 h"
    page.segmented_control(key="window").set_value("24 h").run()
    assert (asked[0], asked[1], asked[-1]) == (900_000, 3_600_000, 86_400_000)


def test_a_collector_that_has_just_begun_shows_the_shortest_time(answers):
    start = answers.series["from_ms"]
    for from_ms, window in ((start, "15 min"), (start + 1, "1 h")):
        gap = {"source": "collector", "from_ms": from_ms, "until_ms": start + 60_000}
        answers.series["gaps"] = [{**gap, "text": "no data for 1 min 00 s: the collector had not run yet"}]
        assert opened("overview").segmented_control(key="window").value == window


def test_an_application_without_traffic_leaves_a_sentence(answers):
    answers.series = series()
    assert "No transaction ended in this time, and no reader waited." in said(opened("overview"))


def test_hostile_names_are_shown_as_text(answers):
    answers.series = series(application_series(HOSTILE))
    answers.series["marks"] = [{"at_ms": now_ms(), "kind": "order", "pipeline": "", "text": HOSTILE}]
    assert "<img" not in said(opened("overview"))


def test_a_kept_picture_is_rendered_once_for_so_long() -> None:
    rendered: list[str] = []
    render = kept_for(60.0, lambda client, query: rendered.append(query["a"]) or {})
    for letter in ("x", "x", "y"):
        render(None, {"a": letter})
    assert rendered == ["x", "y"]
    always = kept_for(0.0, lambda client, query: rendered.append("z") or {})
    always(None, {})
    always(None, {})
    assert rendered == ["x", "y", "z", "z"]
