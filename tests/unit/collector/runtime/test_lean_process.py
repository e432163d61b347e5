"""The collector's process loads no library that it may never use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
NEEDLESS = ("pandas", "psycopg", "pymysql", "httpx", "pyarrow.fs", "streamlit", "pyspark")
"""Of other parts of the product, or of what has to be asked for: databases, receivers, Flink, checkpoint directories."""
LOADED = """
import sys
import indoubt.collector.service
import pyarrow
print(pyarrow.array([1]).to_pylist(), pyarrow.default_memory_pool().backend_name)
print([name for name in sys.argv[1:] if name in sys.modules])
"""


def test_the_collector_loads_nothing_needless() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED, *NEEDLESS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert loaded.stdout.splitlines() == ["[1] system", "[]"]


def test_a_command_does_not_load_the_collector() -> None:
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "indoubt", "transactions", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    modules = {line.rpartition("|")[2].strip() for line in loaded.stderr.splitlines()}
    assert "indoubt.collector.serve.cli.main" in modules
    assert not modules & {
        "indoubt.collector.start",
        "indoubt.collector.service",
        "duckdb",
        "pyarrow",
        "confluent_kafka",
        "fastapi",
    }


def test_history_is_loaded_before_web_server_and_kafka_clients_are_imported() -> None:
    late = {"fastapi", "uvicorn", "kafka", "httpx", "duckdb"}
    seen = f"import indoubt.collector.start, sys; print(sorted(sys.modules.keys() & {late}))"
    loaded = subprocess.run(
        [sys.executable, "-c", seen], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert loaded.stdout.strip() == "['duckdb']"
