"""Applications over time: what the small plots show, and what they do not pretend."""

from __future__ import annotations

import re
from typing import Any

import pytest

from indoubt.app import live
from indoubt.app.regions.region_content import RegionContent, kept_for
from indoubt.app.screens import over_time
from indoubt.lifecycle import page_paths
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_pipeline_rows import (
    application_series,
    checkpoint,
    checkpoint_gap,
    checkpoint_gaps,
    series,
)
from tests.unit.app.contract_rows import now_ms
from tests.unit.app.page_driver import HOSTILE, answering, opened, said

pytestmark = pytest.mark.slow


@pytest.fixture
def answers(monkeypatch):
    with answering(Answers(series=series(application_series())), monkeypatch) as known:
        yield known


def paths(markup: str, kind: str) -> list[str]:
    """Return the drawing of each path of this class."""
    return re.findall(rf'<path d="([^"]*)" class="{kind}', markup)


def test_each_application_has_its_plots_with_what_they_amount_to(answers):
    page = said(opened("overview"))
    for text in ("commits <b>12</b>", "aborts <b>3, 1 lost</b>", "hidden records <b>most 120</b>",
                 "readers wait <b>longest 1 min 05 s</b>", page_paths.pipeline("ip-count")):  # fmt: skip
        assert text in page, text


def test_what_nobody_looked_at_is_hatched_and_is_no_zero(answers):
    page = said(opened("overview"))
    assert paths(page, "unseen") == ["M2 72l1-72"] * 4
    bars = re.findall(r"M(\d+).5 72v-(\d+)", "".join(paths(page, "bars good")))
    assert bars == [("0", "36"), ("1", "72")], "a zero has no bar, and the highest is as high as the plot"
    assert "commits over time, not observed all of the time" in page


def test_small_counts_beside_great_ones_are_seen(answers):
    answers.series["applications"] = [application_series(commits=[1_000_000, 1, 500_000, 0])]
    heights = re.findall(r"v-(\d+)", "".join(paths(str(drawn()), "bars good")))
    assert heights == ["72", "2", "36"]


def test_a_checkpoint_that_took_no_time_is_drawn_at_the_bottom(answers):
    answers.checkpoints = [checkpoint(1, ended_at_ms=now_ms() - 60_000, duration_ms=0)]
    answers.checkpoint_gaps = [checkpoint_gaps()]
    (line,) = paths(str(drawn()), "line-of")
    assert line.endswith(" 71h.01")


def test_marks_of_the_application_stand_at_their_times(answers):
    answers.checkpoint_gaps = [checkpoint_gaps()]
    at = answers.series["from_ms"] + 60_000
    answers.series["marks"] = [
        {"at_ms": at, "kind": "order", "pipeline": "ip-count", "text": "commit by anna"},
        {"at_ms": at, "kind": "alert", "pipeline": "another", "text": "not this one"},
    ]
    page = said(opened("overview"))
    assert 'style="left:25.0%"' in page
    assert paths(page, "mark-lines") == ["M1.00 0v72"] * 5, "a line through each plot, that of checkpoints too"
    assert re.search(rf'last, <time data-at="{at}">[^<]*</time>: ◆ commit by anna', page)
    assert "not this one" not in page


def test_the_checkpoint_line_is_broken_and_the_gap_named(answers):
    now = now_ms()
    answers.checkpoints = [
        checkpoint(1, ended_at_ms=now - 200_000), checkpoint(2, ended_at_ms=now - 190_000), checkpoint(3, ended_at_ms=now - 20_000),
    ]  # fmt: skip
    answers.checkpoint_gaps = [checkpoint_gaps(gaps=[checkpoint_gap(now - 190_000, now - 20_000)])]
    page = said(opened("overview"))
    lines = re.findall(r"M[^M]*", "".join(paths(page, "line-of")))
    assert [line.count("L") for line in lines] == [1, 0]
    assert len(paths(page, "gap")) == 1
    assert re.search(
        rf'"gap-name"><time data-at="{now - 190_000}">[^<]*</time>: no checkpoint for 170 s \(the driver was frozen\)',
        page,
    ), "it is over: it says when it was"


def test_a_gap_that_goes_on_is_a_warning(answers):
    now = now_ms()
    answers.checkpoint_gaps = [checkpoint_gaps(gaps=[checkpoint_gap(now - 20_000, now, ongoing=True)])]
    page = said(opened("overview"))
    assert '<small class="gap-name ongoing">no checkpoint for 20 s (the driver was frozen)</small>' in page


def test_the_checkpoint_line_has_the_highest_of_each_column(answers):
    from_ms = int(answers.series["from_ms"])
    answers.checkpoints = [ended("ip-count", number, from_ms, 400) for number in range(500)]
    answers.checkpoint_gaps = [checkpoint_gaps("ip-count")]
    (line,) = paths(str(drawn()), "line-of")
    assert line.startswith("M0.00 ")
    assert line.count("M") == 1
    assert 190 < line.count("L") < 200, "a column a second"
    assert min(float(height) for height in re.findall(r" ([\d.]+)h", line)) == 1, "the longest is as high as the plot"


def ended(pipeline: str, number: int, from_ms: int, every_ms: int = 2_000) -> dict[str, Any]:
    at_ms = from_ms + every_ms * number
    return checkpoint(number, pipeline=pipeline, ended_at_ms=at_ms, duration_ms=800 + 37 * number % 700)


def drawn() -> RegionContent:
    return over_time.render(live.collector(), {"window": "1 h"})


def test_failed_and_hung_checkpoints_are_marks(answers):
    now = now_ms()
    answers.checkpoints = [checkpoint(1)]
    failure = {"number": 2, "at_ms": now - 60_000, "failures": 1, "reason": "no space left"}
    hung = {"number": 3, "started_at_ms": now - 50_000, "until_ms": now, "name": "hung for 50 s"}
    answers.checkpoint_gaps = [checkpoint_gaps(failures=[failure], hung=[hung])]
    page = said(opened("overview"))
    assert "checkpoint 2 failed: no space left" in page
    assert "checkpoint 3: hung for 50 s" in page


def test_the_time_that_is_shown_is_chosen_and_asked_for(answers, monkeypatch):
    asked: list[int] = []
    real = over_time.CollectorClient.series
    monkeypatch.setattr(
        over_time.CollectorClient, "series", lambda self, **what: asked.append(what["window_ms"]) or real(self, **what)
    )
    page = opened("overview")
    page.segmented_control(key="window").set_value("24 h").run()
    assert (asked[0], asked[-1]) == (3_600_000, 86_400_000)


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
