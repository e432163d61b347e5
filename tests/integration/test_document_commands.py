"""Every command of the first documents is run: here, or by the test that is named here. Or it is said why it cannot be."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from demo.prerequisites import ROOT
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.integration.collector_process import LIMIT_S, CollectorProcess
from tests.integration.command_line_process import Ended, command
from tests.integration.kafka_fixtures import make_sink, wait_until
from tests.integration.reported_pipeline import ReportedPipeline

pytestmark = pytest.mark.integration
DOCUMENTS = (
    "README.md",
    *(f"docs/{name}.md" for name in ("index", "your_cluster", "monitoring/README", "command_line")),
)
COMMAND = re.compile(r"(?:\$ )?(?:\.venv/bin/)?((?:indoubt|make|pip|docker|kubectl|python|systemctl|sed) .*)")

HELP = "indoubt --help"
TRANSACTIONS = "indoubt transactions --verdict 'commit it'"
COMMIT = 'indoubt commit KEY --reason "its driver is frozen" --yes'
ABORT = "indoubt abort --filter transaction-prefix=flink-orders- --filter open-for=15m"
ABORT_SEEN = f'{ABORT} --fingerprint 4be2… --confirm flink-orders- --reason "their application was removed" --yes'
RUNBOOK = """sed 's|runbook_url: "|&https://wiki.example/indoubt/|'"""
HERE = {HELP, TRANSACTIONS, COMMIT, ABORT, ABORT_SEEN, RUNBOOK}

_WATCH = "tests/integration/test_watch.py::test_pages_and_commands_over_the_deaths_of_parts_until_ctrl_c"
_INSTALLED = "tests/integration/test_installed.py::test_watch_runs_its_parts_from_the_installation"
_RELEASE = "tests/integration/test_release.py::made"
ELSEWHERE = {
    "indoubt app": "tests/integration/test_installed.py::test_the_app_serves_its_page",
    "indoubt collector": "tests/integration/test_installed.py::collector",
    "indoubt demo --headless --for 60 --fault crash-mid-commit --report out.json": (
        "tests/integration/test_demo_headless.py::test_nothing_is_lost_or_doubled"
    ),
    "indoubt mcp": "tests/integration/test_mcp_server.py::test_an_assistant_learns_what_is_wrong_and_why",
    "indoubt watch": _WATCH,
    "indoubt watch --bootstrap-servers kafka-1:9092": _INSTALLED,
    "indoubt watch --bootstrap-servers kafka-1:9092,kafka-2:9092": _WATCH,
    "make demo": "tests/integration/test_demo_processes.py::test_sigterm_while_it_starts_leaves_no_process",
    "make release": _RELEASE,
    "make setup-collector": (
        "tests/unit/demo/test_set_up.py::test_set_up_of_the_collector_needs_neither_java_nor_jars"
    ),
    "pip install dist/indoubt-*.whl": _INSTALLED,
    "pip install dist/indoubt-0.2.0-py3-none-any.whl": _INSTALLED,
    "pip install --no-deps dist/indoubt-0.2.0-py3-none-any.whl": _RELEASE,
    "pip install --require-hashes -r requirements/collector.lock": _RELEASE,
}
"""The test, or its fixture, that does what a command does."""

_NO_ENGINE = "no engine for containers runs here: tests/integration/test_images.py carries out the image's steps"
_NO_INDEX = "no package index has it yet"
NOT_RUN = {
    "docker build -t indoubt .": _NO_ENGINE,
    "docker exec NAME indoubt …": _NO_ENGINE,
    "docker run -p 8651:8651 -e INDOUBT_BOOTSTRAP_SERVERS=kafka-1:9092 indoubt": _NO_ENGINE,
    "indoubt COMMAND": "it stands for each of them",
    "make test": "it runs this test",
    "pip install indoubt": _NO_INDEX,
    "pip install 'indoubt[mcp]'": _NO_INDEX,
}


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a document: in blocks, and between backticks."""
    for block in re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE):
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            for one in re.sub(r" {2,}# .*", "", line).split(" && "):
                if found := COMMAND.fullmatch(one.strip()):
                    yield found[1].strip()
    for quoted in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
        if found := COMMAND.fullmatch(" ".join(quoted.split())):
            yield found[1]


def test_each_command_is_run_or_is_said_not_to_be() -> None:
    found = {one for name in DOCUMENTS for one in commands((ROOT / name).read_text())}
    listed = [*HERE, *ELSEWHERE, *NOT_RUN]
    assert found == set(listed)
    assert len(set(listed)) == len(listed)
    for test in ELSEWHERE.values():
        file, _, name = test.partition("::")
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), test


@pytest.mark.parametrize("line", sorted(one for one in (*ELSEWHERE, *NOT_RUN) if one.startswith("make ")))
def test_make_knows_what_it_is_told(line: str) -> None:
    assert subprocess.run([*shlex.split(line), "--dry-run"], cwd=ROOT, capture_output=True).returncode == 0


def test_the_runbook_s_addresses_are_changed_as_said() -> None:
    rules = ROOT / "docs" / "monitoring" / "alert_rules.yml"
    changed = subprocess.run([*shlex.split(RUNBOOK), rules], capture_output=True, text=True, check=True).stdout
    assert changed.count('runbook_url: "https://wiki.example/indoubt/docs/') == rules.read_text().count("runbook_url: ")


def test_the_commands_for_a_collector_do_what_they_say(
    pipeline_collector: CollectorProcess, connection: KafkaConnection, lifecycle_topic: str
) -> None:
    collector = pipeline_collector
    assert all(word in run(collector, HELP).out for word in ("watch", "commit", "abort"))

    pipeline = ReportedPipeline(connection, lifecycle_topic)
    handle = pipeline.prepare(b"row", slot=0, batch=7)
    pipeline.decide(handle, batch=7)
    key = collector.wait_for(handle.transaction, verdict="commit it", may_commit=True)["key"]
    assert key in run(collector, TRANSACTIONS).out
    assert "committed" in run(collector, COMMIT, KEY=key).out
    wait_until("its row is visible", lambda: pipeline.visible() == [b"row"])

    producers = [begin(connection, f"flink-orders-{number}") for number in (1, 2)]
    for number in (1, 2):
        collector.wait_for(f"flink-orders-{number}", verdict="foreign", may_abort=True)
    # Nothing is open for a quarter of an hour here.
    seen = ABORT.replace("15m", "1s")
    wait_until("both are old enough", lambda: "2 transactions" in command(collector, *words(seen)).err)
    shown = run(collector, seen).err
    assert "--confirm takes 'flink-orders-'" in shown
    fingerprint = shown.partition("fingerprint: ")[2].split()[0]
    run(collector, ABORT_SEEN, **{"15m": "1s", "4be2…": fingerprint})
    for number in (1, 2):
        collector.wait_for(f"flink-orders-{number}", state="aborted")
    assert len(producers) == 2


def words(line: str) -> list[str]:
    """Return the words of a command behind the program's name."""
    return shlex.split(line)[1:]


def run(collector: CollectorProcess, line: str, **in_its_place: str) -> Ended:
    """Run a command of the documents, with what differs here; it must end well."""
    for there, here in in_its_place.items():
        line = line.replace(there, here)
    done = command(collector, *words(line))
    assert done.code == 0, done
    return done


def begin(connection: KafkaConnection, id_: str) -> Producer:
    """Leave a transaction open."""
    producer = Producer(connection.for_librdkafka(**{"transactional.id": id_}))
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    producer.produce(make_sink(connection).topic, b"never committed")
    assert producer.flush(LIMIT_S) == 0
    return producer
