"""``overview``: is anything wrong? What needs a person, by deadline, with the command that does it; the exit code says whether."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from indoubt import collector
from indoubt.collector.serve.cli.client import Client
from indoubt.collector.serve.cli.text_table import cell
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.orders import PIPELINE_KEY
from indoubt.lifecycle.rows.attention import Remedy
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
        print(*_said(answer), sep="\n")
    return ALL_WELL if answer["all_well_since_ms"] is not None else NOT_WELL


def _said(answer: Mapping[str, Any]) -> Iterator[str]:
    cards = answer["attention"]
    if cards:
        yield _headline(cards, answer["now_ms"])
        for number, card in enumerate(cards, 1):
            yield from _card(number, card, answer["now_ms"])
    elif answer["awaited"]:
        yield f"nothing is in doubt, and {', '.join(_awaited(one, answer['now_ms']) for one in answer['awaited'])}"
    elif answer["all_well_since_ms"] is None:
        yield "nothing is known to be wrong, but not every source was seen yet: 'python -m indoubt.collector status' shows which"
    else:
        yield f"all well since {cell('all_well_since_ms', answer['all_well_since_ms'])}"
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


def _headline(cards: Sequence[Mapping[str, Any]], now_ms: int) -> str:
    one = len(cards) == 1
    deadlines = [card["deadline_ms"] for card in cards if card["deadline_ms"] is not None]
    first = f", first deadline {_left(min(deadlines), now_ms)}" if deadlines else ""
    return f"{len(cards)} {'thing needs' if one else 'things need'} attention{first}"


def _card(number: int, card: Mapping[str, Any], now_ms: int) -> Iterator[str]:
    sure = f" ({card['certainty']})" if card["certainty"] is not None else ""
    yield f"{number}. {visible(card['badge'])}{sure}: {visible(card['headline'])}"
    if card["deadline_ms"] is not None:
        yield f"   time left: {_left(card['deadline_ms'], now_ms)} ({cell('deadline_ms', card['deadline_ms'])})"
    if card["waits"]:
        yield f"   waits: {', '.join(visible(group['group']) for group in card['waits'])}"
    yield f"   without action: {visible(card['consequence'])}"
    if command := _command(card):
        yield f"   do: {command}"


def _command(card: Mapping[str, Any]) -> str:
    """Return the command that carries out a card's remedy, first as a dry run, or an empty text.

    For more transactions than the answer names it is an order by filter, which finds nothing that hangs.
    """
    remedy = card["remedy"]
    words = list(card["keys"]) if remedy in _ORDERS else []
    if words and card["keys_total"] is not None:
        fits = (f"verdict={card['verdict']}", f"pipeline={card['pipeline']}")
        is_found = card["verdict"] not in (None, Verdict.HANGING.value)
        words = [word for one in fits for word in ("--filter", one)] if is_found else []
    if remedy in _OF_PIPELINE:
        words = [card["target"].removeprefix(PIPELINE_KEY)]
    return shlex.join(["python", "-m", collector.__name__, remedy, *map(visible, words)]) if words else ""


def _left(deadline_ms: int, now_ms: int) -> str:
    left_ms = deadline_ms - now_ms
    return f"in {duration(left_ms)}" if left_ms > 0 else f"passed {duration(-left_ms)} ago"
