"""Fetch the jars of a Kafka release and run the tests that rest on a broker's behaviour against it.

``python -m tests.brokers --kafka 3.9.1``; ``--transaction-version N`` formats the brokers at that feature level, and what
follows ``--`` goes to pytest: other tests, or options. The jars (about 45 MB) are kept in .run/brokers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from demo.jars import fetch_jars
from demo.prerequisites import JARS, ROOT, Missing, java_home

KEPT = ROOT / ".run" / "brokers"
TESTS = (
    "test_kafka_resource_manager.py",
    "test_kafka_zombies.py",
    "test_kafka_sink_records.py",
    "test_kafka_crashes.py",
    "test_kafka_arrow_producer.py",
    "test_kafka_producer_limits.py",
    "test_decision_log.py",
    "test_collector_observes.py",
    "test_collector_orders.py",
    "test_collector_blocked.py",
    "test_hanging_orders.py",
    "test_collector_topic_recreated.py",
)
MODULE = """\
<ivy-module version="2.0">
  <info organisation="indoubt" module="broker"/>
  <configurations><conf name="{version}"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="{version}->runtime(*),master(*)"/>
{logging}
  </dependencies>
</ivy-module>
"""
LOGGING = '    <dependency org="{org}" name="{name}" rev="{revision}" conf="{version}->runtime(*),master(*)"/>'
RELOAD4J = ({"org": "org.slf4j", "name": "slf4j-reload4j", "revision": "1.7.36"},)
# All three by name: Kafka 4.0.0 names older ones, and Ivy fetched only the last of these.
LOG4J = tuple(
    {"org": "org.apache.logging.log4j", "name": name, "revision": "2.25.4"}
    for name in ("log4j-api", "log4j-core", "log4j-slf4j-impl")
)


def jars_of(version: str) -> Path:
    """Return the directory of a release's jars, fetched if they are not there. Raises Missing."""
    if any((JARS / "broker").glob(f"kafka_2.13-{version}.jar")):
        return JARS / "broker"
    directory = KEPT / version
    if not (directory / f"kafka_2.13-{version}.jar").exists():
        module = KEPT / f"ivy-{version}.xml"
        KEPT.mkdir(parents=True, exist_ok=True)
        # Brokers log with log4j 2 from 4.0 on, with its predecessor before.
        major = int(version.partition(".")[0])
        logging = "\n".join(LOGGING.format(version=version, **jar) for jar in (LOG4J if major >= 4 else RELOAD4J))
        module.write_text(MODULE.format(version=version, logging=logging))
        print(f"fetching the jars of Kafka {version} …", file=sys.stderr, flush=True)
        fetch_jars(f"{java_home()}/bin/java", module, KEPT, [version])
    return directory


def main() -> int:
    """Run; return pytest's exit code, or 1 when the jars could not be fetched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", required=True, metavar="VERSION", help="release of Kafka, for example 3.9.1")
    parser.add_argument("--transaction-version", type=int, metavar="N", help="0, 1 or 2; else the release's default")
    parser.add_argument("arguments", nargs="*", help="arguments of pytest; without a test, those that rest on a broker")
    given = parser.parse_args()
    try:
        jars = jars_of(given.kafka)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    options = [f"--kafka-jars={jars}"]
    if given.transaction_version is not None:
        options.append(f"--transaction-version={given.transaction_version}")
    if not any(argument.partition("::")[0].endswith(".py") for argument in given.arguments):
        options += [str(ROOT / "tests" / "integration" / name) for name in TESTS]
    return int(pytest.main([*options, *given.arguments]))


if __name__ == "__main__":
    sys.exit(main())
