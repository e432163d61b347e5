"""Claim: exactly once into MySQL (XA) costs little. Words of a topic are counted into a table, both guarantees in turns.

    python -m benchmarks.word_count_throughput [--records 4000000] [--rounds 2]

A record is three of 10,000 words. Each batch writes the count of every word that it holds. A run is a fresh process over all
records; rates are those of benchmarks/throughput.py. A second connection checks that the counts add up. Flink is not measured.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pymysql

from benchmarks import machine
from benchmarks.figures import median_ratio, row
from benchmarks.spark_run import SparkRun, marks
from benchmarks.throughput import AT_LEAST_ONCE, BROKER, EXACTLY_ONCE, JAVA, NAMES, PYTHON, Results
from benchmarks.topics import PARTITIONS, make_topic, produce
from demo.broker import Broker
from demo.mariadb_server import MariaDbServer
from demo.prerequisites import java_home
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.topics.decision_log import DecisionLog

SOURCE, WORDS, WORDS_EACH, BATCHES = "words_source", 10_000, 3, 8
CHUNK, SEED = 20_000, 42
DATABASE = "database"
SIDES = (EXACTLY_ONCE, AT_LEAST_ONCE)
TABLE = "create table {} (word varchar(255) collate utf8mb4_bin primary key, count bigint)"


def values(records: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (partition, values)."""
    dice = random.Random(SEED)
    words = [f"word{number}" for number in range(WORDS)]
    for number, start in enumerate(range(0, records, CHUNK)):
        count = min(CHUNK, records - start)
        yield number % PARTITIONS, [" ".join(dice.choices(words, k=WORDS_EACH)).encode() for _ in range(count)]


def ask(connection: DatabaseConnection, statement: str) -> int:
    """Return the number that a statement tells, 0 where it tells none."""
    driver = pymysql.connect(
        host=connection.host,
        port=connection.port,
        user=connection.user,
        password=connection.password,
        database=connection.database,
    )
    with driver, driver.cursor() as cursor:
        cursor.execute(statement)
        found = cursor.fetchone()
    return int(found[0]) if found else 0


def main() -> int:
    """Run the rounds in turns and print medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = java_home()
    results: defaultdict[str, Results] = defaultdict(Results)
    with tempfile.TemporaryDirectory(prefix="indoubt-bench-") as directory:
        work = Path(directory)
        with Broker(work / "broker") as broker, MariaDbServer(work / "database") as server:
            connection = KafkaConnection(broker.bootstrap_servers)
            DecisionLog(connection).ensure_topic()
            make_topic(connection, "transaction_lifecycle")
            make_topic(connection, SOURCE)
            produce(connection, SOURCE, values(arguments.records))
            to = server.connection
            fields = {name: getattr(to, name) for name in ("host", "port", "user", "password", "database")}
            properties = work / "database.properties"
            properties.write_text("".join(f"mysql.{name}={value}\n" for name, value in fields.items()))
            properties.chmod(0o600)
            for number in range(arguments.rounds):
                for side in SIDES if number % 2 == 0 else reversed(SIDES):
                    machine.settle()
                    name = f"{side}_{number}"
                    ask(to, TABLE.format(name))
                    ran = SparkRun(
                        job="word_count",
                        side=side,
                        bootstrap_servers=broker.bootstrap_servers,
                        source=SOURCE,
                        sink=f"mysql:{name}",
                        checkpoint=str(work / name),
                        batch_records=-(-arguments.records // BATCHES),
                        prefix=name,
                        database_properties=str(properties),
                    ).run({BROKER: broker.pid or 0, DATABASE: server.pid or 0})
                    counted = ask(to, f"select sum(count) from {name}")  # noqa: S608 (a name made here)
                    if counted != arguments.records * WORDS_EACH:
                        raise AssertionError(
                            f"{side}: {counted:,} of {arguments.records * WORDS_EACH:,} words are counted"
                        )
                    seen, started_s = marks(ran.batches), ran.batches[0].started_s
                    results[side].add(started_s, seen[-1].records / (seen[-1].at_s - started_s), seen, ran.cpu)
    report(results, arguments.records)
    return 0


def report(results: dict[str, Results], records: int) -> None:
    """Print the table: medians, the ratio, and processor seconds a million records."""
    print(f"word_count into MariaDB, {records:,} records of {WORDS_EACH} words, records/s:")
    print(row("", "steady", "whole run", "exactly once / this", BROKER, DATABASE, JAVA, PYTHON, width=20))
    for side, result in results.items():
        ratio = median_ratio(results[EXACTLY_ONCE].steady, result.steady)
        used = [
            statistics.median(cpu.get(kind, 0.0) for cpu in result.cpu_s) for kind in (BROKER, DATABASE, JAVA, PYTHON)
        ]
        rates = (f"{statistics.median(rates):,.0f}" for rates in (result.steady, result.whole))
        print(row(NAMES[side], *rates, f"{ratio:.2f}", *(f"{value:.2f}" for value in used), width=20))
    print(machine.describe())


if __name__ == "__main__":
    sys.exit(main())
