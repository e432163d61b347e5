"""``overview``: is anything wrong? The incidents by deadline, with the commands that end them; the exit code says whether."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.cli.text_table import cell
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.orders import PIPELINE_KEY
from indoubt.lifecycle.rows.attention import Remedy
from indoubt.lifecycle.rows.incidents import StepState
from indoubt.lifecycle.settings_file import CLUSTER_OPTION
from indoubt.lifecycle.verdicts import Verdict
from indoubt.lifecycle.visible_text import visible

COMMAND = "overview"
ALL_WELL, NOT_WELL = 0, 4
_ORDERS = (Remedy.COMMIT.value, Remedy.ABORT.value)
_OF_PIPELINE = (Remedy.RESTART.value, Remedy.START.value)


def execute(client: Client, *, as_json: bool) -> int:
    """Print the overview; return 0 where all is well, else 4. Raises Unanswered, Refused."""
    answer = client.get("/api/v1/overview")
    if as_json:
        print(json.dumps(answer))
    else:
        print(*_said(answer, client.cluster), sep="\n")
    return ALL_WELL if answer["all_well_since_ms"] is not None else NOT_WELL


def _said(answer: Mapping[str, Any], cluster: str = "") -> Iterator[str]:
    incidents = answer["incidents"]
    if answer["incidents_total"]:
        yield _headline(answer)
        for number, one in enumerate((one for one in incidents if one["over_at_ms"] is None), 1):
            yield from _incident(number, one, answer["now_ms"], cluster)
    elif answer["awaited"]:
        yield f"nothing is in doubt, and {', '.join(_awaited(one, answer['now_ms']) for one in answer['awaited'])}"
    elif answer["all_well_since_ms"] is None:
        yield "nothing is known to be wrong, but not every source was seen yet: 'indoubt status' shows which"
    else:
        yield f"all well since {cell('all_well_since_ms', answer['all_well_since_ms'])}"
    for one in incidents:
        if one["over_at_ms"] is not None:
            yield f"over at {cell('over_at_ms', one['over_at_ms'])}: {visible(one['key'])}. {visible(one['outcome'])}"
    yield (
        f"{counted(answer['counts']['open'], 'open transaction')}, {counted(answer['pipelines_alive'], 'pipeline')} alive, "
        f"{counted(answer['counts']['waiting_groups'], 'group')} waiting, "
        f"{answer['observers_up']} of {counted(answer['observers'], 'source')} up"
    )


def _awaited(one: Mapping[str, Any], now_ms: int) -> str:
    name, restart = visible(one["pipeline"]), one["restart"]
    if restart is None:
        silent, counted_at = duration(now_ms - one["silent_since_ms"]), duration(one["counted_after_ms"])
        return f"{name} is silent for {silent} (counted as frozen at {counted_at})"
    what = "restarts" if restart["run"] is None else f"starts run {restart['run']}"
    usually = f" of usually {duration(restart['usually_ms'])}" if restart["usually_ms"] is not None else ""
    return f"{name} {what}, {duration(now_ms - restart['since_ms'])}{usually}"


def _headline(answer: Mapping[str, Any]) -> str:
    deadlines = [one["deadline_ms"] for one in answer["incidents"] if one["deadline_ms"] is not None]
    first = f", first deadline {_left(min(deadlines), answer['now_ms'])}" if deadlines else ""
    number = answer["to_act"]
    if not number:
        return f"{counted(answer['incidents_total'], 'incident')}, nothing to do now{first}"
    return f"{counted(number, 'incident')} {'needs' if number == 1 else 'need'} you{first}"


def _incident(number: int, one: Mapping[str, Any], now_ms: int, cluster: str) -> Iterator[str]:
    parts = {part["key"]: part for part in one["parts"]}
    leading = one["parts"][0] if one["parts"] else None
    sure = f" ({leading['certainty']})" if leading is not None and leading["certainty"] is not None else ""
    yield f"{number}. {visible(leading['badge'] if leading is not None else 'firing')}{sure}: {visible(one['headline'])}"
    if one["deadline_ms"] is not None:
        yield f"   time left: {_left(one['deadline_ms'], now_ms)} ({cell('deadline_ms', one['deadline_ms'])})"
    if leading is not None and leading["waits"]:
        yield f"   waits: {', '.join(visible(group['group']) for group in leading['waits'])}"
    yield f"   without action: {visible(one['consequence'])}"
    for step in one["steps"]:
        note = f": {visible(step['note'])}" if step["note"] else ""
        yield f"   {step['state']}: {visible(step['what'])}{note}"
        if step["state"] == StepState.TO_DO.value and (command := _command(step, parts.get(step["part"]))):
            yield f"      {command}{f' {CLUSTER_OPTION} {cluster}' if cluster else ''}"


def _command(step: Mapping[str, Any], part: Mapping[str, Any] | None) -> str:
    """Return the command that carries out a step, first as a dry run, or an empty text.

    For more transactions than the answer names it is an order by filter, which finds nothing that hangs.
    """
    remedy = step["remedy"]
    words = list(part["keys"]) if part is not None and remedy in _ORDERS else []
    if part is not None and words and part["keys_total"] is not None:
        fits = (f"verdict={part['verdict']}", f"pipeline={part['pipeline']}")
        is_found = part["verdict"] not in (None, Verdict.HANGING.value)
        words = [word for one in fits for word in ("--filter", one)] if is_found else []
    if remedy in _OF_PIPELINE:
        words = [step["target"].removeprefix(PIPELINE_KEY)]
    return shlex.join(["indoubt", remedy, *map(visible, words)]) if words else ""


def _left(deadline_ms: int, now_ms: int) -> str:
    left_ms = deadline_ms - now_ms
    return f"in {duration(left_ms)}" if left_ms > 0 else f"passed {duration(-left_ms)} ago"
