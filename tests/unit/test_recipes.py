"""The recipes of docs/contributing.md, carried out on a copy of the product: each touches the files it names, and works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PACKAGES = ("collector", "lifecycle", "resource_managers")
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """``section``: its heading. ``changes``: file -> what stands in it, and what stands in its place then; '' makes the file.

    ``shows``: a script that fails unless what was added works.
    """

    section: str
    changes: Mapping[str, tuple[tuple[str, str], ...]]
    shows: str


BEGINNING = """
import tempfile
from pathlib import Path
from indoubt.collector.history.store import Store
from indoubt.collector.records.formats import transaction_state as format
from indoubt.collector.records.observations import Observed, Position
from indoubt.collector.observe.transaction_state_log import record_of
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus, Limits
from indoubt.collector.views.current_state import CurrentState

directory = Path(tempfile.mkdtemp())
store = Store(directory / "history.duckdb")

def memory():
    made = CurrentState(store, settled_kept=10, checkpoints_kept=10, limits=Limits())
    made.see_decision_log(DecisionLogStatus.ABSENT)
    return made

def see(current, record):
    current.observe([Observed(position=Position(source="s", partition=0, offset=0), observation=record)])
"""
VERDICT_RULE = Recipe(
    section="Add a verdict rule",
    changes={
        "collector/verdicts/verdict_rules.py": (
            ("RULES: tuple[Rule, ...] = (\n", "RULES: tuple[Rule, ...] = (\n    rule_0_marked,\n"),
            (
                "def rule_1_settled(",
                '''def rule_0_marked(case: Case) -> Judgement | None:
    """Its id says that it may be aborted."""
    if not case.transaction.transaction.startswith("marked-"):
        return None
    mark = Evidence(fact="it is marked", source=BROKER)
    return Judgement(Verdict.FOREIGN, 0, mark, assumes=(Assumption.MARKS_ARE_TRUE,), may_abort=True)


def rule_1_settled(''',
            ),
        ),
        "lifecycle/verdicts.py": (
            ('    EVENTS_ARE_TRUE = "', '    MARKS_ARE_TRUE = "what its id says is true"\n    EVENTS_ARE_TRUE = "'),
        ),
    },
    shows="""
state = dict(producer_id=1, producer_epoch=0, timeout_ms=1, partitions=("t-0",), update_ms=1, start_ms=1)
current = memory()
see(current, record_of("marked-1", format.TransactionStateValue(status=format.BrokerStatus.ONGOING, **state), "s"))
(judged,) = current.transactions.judged()
assert (judged.judgement.rule, judged.judgement.may_abort) == (0, True)
assert [each.value for each in judged.judgement.assumes] == ["what its id says is true"]
""",
)
FIELD = Recipe(
    section="Add a field of a record",
    changes={
        "collector/records/formats/transaction_state.py": (
            (
                'TAGGED = {0: ("previous_producer_id", "q"),',
                'TAGGED = {0: ("previous_producer_id", "q"), 3: ("next_epoch", "h"),',
            ),
            ('DEFAULTS = {"previous_producer_id": -1,', 'DEFAULTS = {"next_epoch": -1, "previous_producer_id": -1,'),
            (
                "    @property\n    def rotated(",
                '    next_epoch: int = DEFAULTS["next_epoch"]\n\n    @property\n    def rotated(',
            ),
        ),
        "collector/records/formats/transaction_state_batch.py": (
            (
                "    client_transaction_version: Integers\n",
                "    client_transaction_version: Integers\n    next_epoch: Integers\n",
            ),
        ),
        "collector/records/observations.py": (
            (
                "    client_transaction_version: int\n    source: str\n",
                "    client_transaction_version: int\n    source: str\n    next_epoch: int = -1\n",
            ),
        ),
        "collector/history/schema.sql": (
            (
                "partitions varchar[], client_version integer);",
                "partitions varchar[], client_version integer, next_epoch integer);",
            ),
        ),
        "collector/history/observation_tables.py": (
            (
                '    Column("client_version", INT, "client_transaction_version"),\n',
                '    Column("client_version", INT, "client_transaction_version"),\n    Column("next_epoch", INT),\n',
            ),
        ),
        "collector/records/facts.py": (
            (
                "    last_write_ms: int | None = _max(",
                '    next_epoch: int | None = _max("next_epoch", _STARTED)\n    last_write_ms: int | None = _max(',
            ),
        ),
    },
    shows="""
import numpy as np
from indoubt.collector.records.broker_record_batch import records_of
from indoubt.collector.records.formats.transaction_state_batch import StateDecoder
from tests.unit.collector.records.test_transaction_state import int16, version_1
from tests.unit.collector.records.test_transaction_state_batch import key

value = version_1(1, topics=[(b"t", [0])], tags={3: int16(7)})
current = memory()
see(current, record_of("alone", format.decode_value(value), "s"))
columns, ordinary = StateDecoder().decode([key(b"together")], [value])
assert ordinary.all()
places = np.zeros(1, np.int64)
current.observe_records(records_of("s", places, places + 1, columns), [], {("s", 0): 2})
store.flushed()
again = memory()
again.load()
for known in (current, again):
    found = {each.view.transaction: each.view.broker.next_epoch for each in known.transactions.judged()}
    assert found == {"alone": 7, "together": 7}
""",
)
SOURCE = Recipe(
    section="Add a source",
    changes={
        "collector/observe/beat_file.py": (
            (
                "",
                '''"""Observes a file whose time says that something lives."""

from pathlib import Path

from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.observe.source import Observer
from indoubt.collector.views.current_state import CurrentState


class BeatFile(Observer):
    """It is down while its file is missing."""

    kind = ObserverKind.BEAT

    def __init__(self, current: CurrentState, path: str, *, interval_ms: int) -> None:
        super().__init__(current, path)
        self._path, self._interval_s = Path(path), interval_ms / 1000

    def observe(self) -> None:
        """Look for the file."""
        while not self.stopping.is_set():
            self._path.stat()
            self.polled()
            self.stopping.wait(self._interval_s)
''',
            ),
        ),
        "collector/records/observer_kind.py": (
            ('    CLOCKS = "clocks"\n', '    CLOCKS = "clocks"\n    BEAT = "beat of"\n'),
        ),
        "collector/service.py": (
            (
                "    found.append(AbortedOffsets(",
                """    if tunable.beat_file:
        found.append(BeatFile(current, tunable.beat_file, interval_ms=tunable.beat_polling_ms))
    found.append(AbortedOffsets(""",
            ),
            (
                "from indoubt.collector.observe.clocks import Clocks\n",
                "from indoubt.collector.observe.beat_file import BeatFile\nfrom indoubt.collector.observe.clocks import Clocks\n",
            ),
        ),
        "collector/config/variables.py": (
            (
                "    flink_polling_ms: Whole = 2_000\n",
                '    flink_polling_ms: Whole = 2_000\n    beat_file: str = ""\n    beat_polling_ms: Whole = 100\n',
            ),
        ),
    },
    shows="""
import time
from indoubt.collector import service
from indoubt.collector.config import settings
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager

file = directory / "beat"
file.touch()
given = settings.read(["--bootstrap-servers", "127.0.0.1:9", "--directory", str(directory)], {"INDOUBT_BEAT_FILE": str(file)})
connection = KafkaConnection("127.0.0.1:9")
observers = service._observers(given, connection, memory(), store, KafkaResourceManager(connection))
(observer,) = [each for each in observers if each.name == f"beat of {file}"]
observer.start()
try:
    for state in ("up", "down"):
        ends_s = time.monotonic() + 30
        while observer.status.state.value != state:
            assert time.monotonic() < ends_s, observer.status
            time.sleep(0.01)
        file.unlink(missing_ok=True)
finally:
    observer.stop()
""",
)
RECIPES = {recipe.section: recipe for recipe in (VERDICT_RULE, FIELD, SOURCE)}


def executed(recipe: Recipe, copy: Path) -> None:
    """Make a copy of the product with what the recipe adds."""
    for package in (*PACKAGES, "indoubt", "tests"):
        shutil.copytree(ROOT / package, copy / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in recipe.changes.items():
        file = copy / name
        for before, after in changes:
            text = file.read_text() if before else ""
            assert text.count(before) == 1 or not before, f"{before!r} stands {text.count(before)} times in {name}"
            file.write_text(text.replace(before, after, 1))


@pytest.mark.parametrize("section", RECIPES)
def test_a_recipe_names_every_file_that_it_touches_and_works(section: str, tmp_path: Path) -> None:
    recipe = RECIPES[section]
    executed(recipe, tmp_path)
    script = f"{BEGINNING}{recipe.shows}store.close()"
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert shown.returncode == 0, shown.stderr
    assert named_files(section) == set(recipe.changes)


def named_files(section: str) -> set[str]:
    """Return the files of the product that the numbered steps of a section begin with, up to its tests."""
    text = (
        (ROOT / "docs" / "contributing.md")
        .read_text()
        .split(f"## {section}\n")[1]
        .split("\n## ")[0]
        .split("\nTests:")[0]
    )
    named = re.findall(r"^[0-9]+\. `([^`]+)`", text, re.MULTILINE)
    return {
        name.replace("NAME", "beat_file") for name in named if name.startswith(tuple(f"{one}/" for one in PACKAGES))
    }
