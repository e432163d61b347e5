"""Applications over time: what the small plots show, and what they do not pretend."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from indoubt.app import live
from indoubt.app.components import small_plots
from indoubt.app.regions.region_content import RegionContent, changes, kept_for
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
    """Return the drawing of each path of this class, or of each in a group of it."""
    return re.findall(rf'<path d="([^"]*)" class="{kind}', markup) + [
        drawn
        for group in re.findall(rf'<g class="{kind}[^>]*>(.*?)</g>', markup)
        for drawn in re.findall(r'd="([^"]*)"', group)
    ]


def first_place(answers: Answers) -> int:
    """Return where the first bucket is drawn."""
    return int(answers.series["from_ms"] // answers.series["bucket_ms"] % small_plots.ROUND)


def test_each_application_has_its_plots_with_what_they_amount_to(answers):
    page = said(opened("overview"))
    for text in ("commits <b>12</b>", "aborts <b>3, 1 lost</b>", "hidden records <b>most 120</b>",
                 "readers wait <b>longest 1 min 05 s</b>", page_paths.pipeline("ip-count")):  # fmt: skip
        assert text in page, text


def test_what_nobody_looked_at_is_hatched_and_is_no_zero(answers):
    page, first = said(opened("overview")), first_place(answers)
    assert f'--moved:-{first}"' in page
    assert paths(page, "unseen") == [f"M{first + 3} 0h-1v40h1z"] * 4
    bars = re.findall(r"M(\d+) 0v(\d+)", "".join(paths(page, "bars good")))
    assert sorted(bars) == [(str(first), "4"), (str(first + 1), "8")], "a zero has no bar"
    assert 'class="bars good" style="--scale:5"' in page, "the highest is as high as the plot"
    assert "commits over time, not observed all of the time" in page


def test_a_time_without_observation_before_the_first_bucket_stays_as_it_is(answers):
    first = first_place(answers)
    found = []
    for unseen in (3, 2):
        answers.series["applications"] = [application_series(commits=[None] * unseen + [1] * (4 - unseen))]
        answers.series["from_ms"] += 60_000 * (3 - unseen)
        answers.series["until_ms"] += 60_000 * (3 - unseen)
        found += paths(str(drawn()), "unseen")[:1]
    assert found == [f"M{first + 3} 0h-4v40h4z"] * 2


def test_great_counts_are_drawn_in_few_digits_and_small_ones_beside_them_are_seen(answers):
    answers.series["applications"] = [application_series(commits=[1_000_000, 1, 500_000, 0])]
    heights = re.findall(r"v(\d+)", "".join(paths(str(drawn()), "bars good")))
    assert sorted(map(int, heights)) == [2, 61, 122]


def test_marks_of_the_application_stand_at_their_times(answers):
    at = answers.series["from_ms"] + 60_000
    answers.series["marks"] = [
        {"at_ms": at, "kind": "order", "pipeline": "ip-count", "text": "commit by anna"},
        {"at_ms": at, "kind": "alert", "pipeline": "another", "text": "not this one"},
    ]
    page = said(opened("overview"))
    assert f"--place:{first_place(answers) + 1}.0" in page
    assert "last: ◆ commit by anna" in page
    assert "not this one" not in page


def test_the_checkpoint_line_is_broken_and_the_gap_named(answers):
    now = now_ms()
    answers.checkpoints = [
        checkpoint(1, ended_at_ms=now - 200_000), checkpoint(2, ended_at_ms=now - 190_000), checkpoint(3, ended_at_ms=now - 20_000),
    ]  # fmt: skip
    answers.checkpoint_gaps = [checkpoint_gaps(gaps=[checkpoint_gap(now - 190_000, now - 20_000)])]
    page = said(opened("overview"))
    lines = re.findall(r"M\d+ \d+[^M]*", "".join(paths(page, "line-of")))
    assert sorted((line.count("l"), line.endswith("h1")) for line in lines) == [(0, True), (1, False)]
    assert len(paths(page, "gap")) == 1
    assert "no checkpoint for 170 s (the driver was frozen)" in page


def test_a_new_end_and_a_new_checkpoint_change_little_of_the_plots(answers):
    answers.series = series(*[busy(f"app-{number}", last=7) for number in range(3)])
    at = int(answers.series["from_ms"])
    names = [f"app-{number}" for number in range(3)]
    answers.checkpoints = [ended(name, number, at) for name in names for number in range(99)]
    answers.checkpoint_gaps = [checkpoint_gaps(name) for name in names]
    before = drawn()
    answers.series["applications"] = [busy(f"app-{number}", last=8) for number in range(3)]
    answers.checkpoints += [ended(name, 99, at) for name in names]
    message = json.dumps(changes(before, drawn()))
    assert len(json.dumps(before)) > 9_000
    assert len(message) < 2_500


def test_the_checkpoint_line_goes_on_over_its_pieces_and_begins_before_what_is_seen(answers):
    from_ms = int(answers.series["from_ms"])
    answers.checkpoints = [ended("ip-count", number, from_ms) for number in range(119, -60, -1)]
    answers.checkpoint_gaps = [checkpoint_gaps("ip-count")]
    lines = paths(str(drawn()), "line-of")
    assert [line.count("M") for line in lines] == [1] * len(lines)
    assert all(line.startswith("M") for line in lines)
    ends = {}
    for line in lines:
        column, height = map(int, re.findall(r"\d+", line)[:2])
        steps = [tuple(map(int, step)) for step in re.findall(r"l(-?\d+) ?(-?\d+)", line)]
        ends[column, height] = (column + sum(x for x, _ in steps), height + sum(y for _, y in steps))
    assert len(ends.keys() - ends.values()) == 1, "each piece but the first begins where another one ends"
    first_column = min(ends)[0] - first_place(answers) * small_plots.COLUMNS // 4
    assert -small_plots.COLUMNS_A_PIECE < first_column <= 0


def test_a_minute_that_passes_changes_little_of_the_plots_of_many(answers):
    names = [f"app-{number}" for number in range(8)]
    answers.series = series(*[busy(name, last=7) for name in names], marks=some_marks(names))
    answers.checkpoint_gaps = [checkpoint_gaps(name) for name in names]
    from_ms = int(answers.series["from_ms"])
    sizes, before = [], RegionContent()
    for minute in range(15):
        answers.series |= {"from_ms": from_ms + 60_000 * minute, "until_ms": from_ms + 60_000 * (minute + 60)}
        # One each 5 s, the newest first.
        newest = 12 * (minute + 60)
        answers.checkpoints = [
            ended(name, n, from_ms, 5_000) for name in names for n in range(newest, newest - 500, -1)
        ]
        now = drawn()
        sizes.append(len(json.dumps(changes(before, now), separators=(",", ":"))))
        answers.series["applications"] = [busy_after(row) for row in answers.series["applications"]]
        before = now
    assert max(sizes[1:]) < 5_000, sizes


def some_marks(names: list[str]) -> list[dict[str, Any]]:
    now = now_ms()
    return [{"at_ms": now - 60_000 * n, "kind": "order", "pipeline": name, "text": "commit by anna"}
            for name in names for n in range(1, 4)]  # fmt: skip


def busy_after(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row a minute later: the bucket that grew is whole, and another one has begun."""
    commits = [*row["commits"][1:-1], 20 + row["commits"][1] % 13, 1]
    return application_series(row["pipeline"], commits=commits, hidden=commits, longest_wait_ms=commits)


def busy(pipeline: str, last: int) -> dict[str, Any]:
    commits = [20 + place * 7 % 13 for place in range(59)] + [last]
    return application_series(pipeline, commits=commits, hidden=commits, longest_wait_ms=commits)


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
