"""The decoders take any bytes: the kept corpus, a short search for more, and what they let pass is still there after a restart."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from indoubt.collector.history.store import Store
from indoubt.collector.records.observations import DecisionSeen, EventSeen, Observation, Observed, Position
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle import decisions, events
from indoubt.lifecycle.errors import MalformedRecord
from tests.fuzz.json_mutator import mutated
from tests.fuzz.targets import JSON_TARGETS, TARGETS

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).with_name("corpus")
KEPT = sorted(path for path in CORPUS.rglob("*") if path.is_file())
RUNS = 10_000
SECONDS = 4


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_corpus_record_is_refused_or_can_be_kept_and_shown(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_each_target_has_a_corpus() -> None:
    assert {path.parent.name for path in KEPT} == set(TARGETS)


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this Python")
@pytest.mark.parametrize("target", TARGETS)
def test_a_short_search_finds_nothing(target: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", target, "--directory", str(tmp_path)]
    command += ["--runs", str(RUNS), "--seconds", str(SECONDS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    found = [path.read_bytes() for path in tmp_path.glob("found-*")]
    assert (done.returncode, found) == (0, []), done.stderr[-3000:]


@pytest.mark.parametrize("target", sorted(JSON_TARGETS))
def test_the_mutator_makes_records_that_pass_and_records_that_do_not(target: str) -> None:
    decode = events.decode if target == "lifecycle_event" else decisions.decode
    seeds = [path.read_bytes() for path in KEPT if path.parent.name == target and _passes(decode, path.read_bytes())]
    rng = random.Random(1)
    passed = [_passes(decode, mutated(rng.choice(seeds), rng)) for _ in range(500)]
    assert 20 < sum(passed) < 480


def test_what_passes_is_in_history_and_is_read_back_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    current = CurrentState(store, settled_kept=1000, checkpoints_kept=1000, limits=Limits())
    current.observe([one for number, path in enumerate(KEPT) for one in _observed(number, path)])
    counts = current.counts()
    shown = {one.view.key: one.view.revision for one in current.transactions.judged(settled=True)}
    assert counts[0] > 10
    store.flushed()
    store.close()
    again = Store(tmp_path / "history.duckdb")
    reloaded = CurrentState(again, settled_kept=1000, checkpoints_kept=1000, limits=Limits())
    reloaded.load()
    assert reloaded.counts() == counts
    assert {one.view.key: one.view.revision for one in reloaded.transactions.judged(settled=True)} == shown
    again.close()


def test_a_bad_record_in_history_does_not_keep_the_collector_down(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.duckdb")
    (kept,) = _observed(0, CORPUS / "lifecycle_event" / "checkpoint-started")
    broken = json.dumps(json.loads(kept.raw) | {"subject": 2**70})
    current = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    current.observe([Observed(position=kept.position, observation=kept.observation, raw=broken)])
    store.flushed()
    reloaded = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    reloaded.load()
    assert reloaded.checkpoints() == []
    store.close()


def _passes(decode: Callable[[bytes], object], data: bytes) -> bool:
    try:
        decode(data)
    except MalformedRecord:
        return False
    return True


def _observed(number: int, path: Path) -> list[Observed]:
    """Return what an observer hands over of a kept event or decision that its decoder lets pass."""
    data, observation = path.read_bytes(), None
    try:
        if path.parent.name == "lifecycle_event":
            observation: Observation | None = EventSeen(event=events.decode(data))
        elif path.parent.name == "decision_record":
            record = decisions.decode(data)
            observation = None if isinstance(record, decisions.Part) else DecisionSeen(offset=number, record=record)
    except MalformedRecord:
        return []
    position = Position(source=path.parent.name, partition=0, offset=number)
    return [Observed(position=position, observation=observation, raw=data.decode())] if observation else []
