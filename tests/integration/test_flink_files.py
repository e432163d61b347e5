"""Files that a real Flink wrote whole and did not make visible, because it was killed: an order does it, and nothing is doubled."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demo.broker import Broker
from demo.object_store import BUCKET, KEY, REGION, ObjectStore
from tests.integration.collector_process import LIMIT_S, CollectorProcess, running
from tests.integration.flink_files_job import SOURCES, FilesJob
from tests.integration.flink_orders_job import LAST, PARALLELISM, PER_SECOND
from tests.integration.kafka_fixtures import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.long]
ORDERS, LONG_ORDERS = 400, 6_400
NAME = f"chk-{LAST}"
LEFT_LIMIT_S = 140.0
SETTINGS = {
    "INDOUBT_FLINK_POLLING_MS": "200",
    "INDOUBT_REMOTE_CHECKPOINT_POLLING_MS": "500",
    # A JobManager that died is waited for so long before a file is to be committed.
    "INDOUBT_DRIVER_SILENT_MS": "3000",
}


@dataclass
class Written:
    """A job, the collector that watches it, and a reader of what is visible that knows neither."""

    job: FilesJob
    collector: CollectorProcess
    visible: Callable[[], Counter[str]]
    """Every order in the files that anybody sees, and how often."""

    def hidden(self, **fields: Any) -> list[dict[str, Any]]:
        """Return the rows of the files that the killed job left hidden, once they are all there and have these values."""

        def found() -> list[dict[str, Any]] | None:
            fits = [row for row in self.rows() if all(row[name] == value for name, value in fields.items())]
            return fits if len(fits) == PARALLELISM else None

        try:
            rows: list[dict[str, Any]] = wait_until(f"files with {fields}", found, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {self.rows()}") from None
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all files: the broker may have a thousand transactions of other tests, more than a page."""
        return self.collector.rows("transactions?all=true&resource_manager=file_sink")


@pytest.fixture(scope="module", autouse=True)
def build() -> None:
    SOURCES.compile_or_skip()


def in_directory(files: Path) -> Counter[str]:
    """Read as a program does that lists a directory: names that begin with a dot are none of its."""
    seen: Counter[str] = Counter()
    for path in files.iterdir() if files.is_dir() else ():
        if not path.name.startswith("."):
            seen.update(path.read_text().splitlines())
    return seen


@pytest.fixture
def local(broker: Broker, tmp_path: Path) -> Iterator[Written]:
    files, checkpoints = tmp_path / "files", tmp_path / "checkpoints"
    checkpoints.mkdir()
    job = FilesJob(f"file:{files}", checkpoints, tmp_path / "flink.log")
    arguments = ["--flink", f"shop=http://127.0.0.1:{job.port}", "--flink-checkpoints", f"shop={checkpoints}"]
    with running(broker.bootstrap_servers, tmp_path / "collector", arguments, SETTINGS) as collector:
        yield Written(job, collector, lambda: in_directory(files))
        job.kill()


@pytest.fixture
def in_s3(broker: Broker, tmp_path: Path) -> Iterator[Written]:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    with ObjectStore(tmp_path / "store") as store:
        given = {"endpoint": store.environment["AWS_ENDPOINT_URL"], "access-key": KEY, "secret-key": KEY}
        given |= {"path.style.access": "true", "endpoint.region": REGION}
        settings = {f"s3.{name}": value for name, value in given.items()}
        job = FilesJob(f"s3://{BUCKET}/orders", checkpoints, tmp_path / "flink.log", settings)
        arguments = ["--flink", f"shop=http://127.0.0.1:{job.port}", "--flink-checkpoints", f"shop={checkpoints}"]

        def visible() -> Counter[str]:
            import boto3

            client = boto3.client(
                "s3",
                endpoint_url=given["endpoint"],
                aws_access_key_id=KEY,
                aws_secret_access_key=KEY,
                region_name=REGION,
            )
            seen: Counter[str] = Counter()
            for item in client.list_objects_v2(Bucket=BUCKET, Prefix="orders/").get("Contents", ()):
                body = client.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read().decode()
                seen.update(body.splitlines())
            return seen

        environment = {**SETTINGS, **store.environment}
        with running(broker.bootstrap_servers, tmp_path / "collector", arguments, environment) as collector:
            yield Written(job, collector, visible)
            job.kill()


def left_hidden(written: Written) -> tuple[Path, list[dict[str, Any]]]:
    """Have the job killed between checkpoint 3 and its commits; return the checkpoint and its files, to be committed."""
    written.job.start(ORDERS, last=LAST)
    checkpoint = written.job.checkpoint(LAST)
    rows = written.hidden(rule=23, verdict="in progress", pipeline="shop/orders", checkpoint=LAST)
    assert "it commits the file itself" in json.dumps(rows[0]["evidence"])
    wait_until("the page's row", lambda: sinks(written, LAST)["hidden"] == PARALLELISM, LIMIT_S)
    assert sinks(written, LAST - 1)["visible"] == sinks(written, LAST - 1)["commits"]
    written.job.kill()
    return checkpoint, written.hidden(rule=23, verdict="commit it", may_commit=True, commit_confirmation=NAME)


def sinks(written: Written, number: int) -> dict[str, Any]:
    """Return what the one sink of the job announces in a checkpoint."""
    row = next(row for row in written.collector.rows("checkpoints") if row["number"] == number)
    (sink,) = row["sinks"] or [{"sink": "", "hidden": None}]
    assert sink["sink"] in ("", "orders_files")
    return dict(sink)


def require_each_once(written: Written) -> None:
    expected = Counter({f"order {number}": 1 for number in range(ORDERS)})
    seen = written.visible()
    assert seen == expected, {"missing": expected - seen, "too many": seen - expected}


@pytest.mark.parametrize("store", ["local", "in_s3"])
def test_what_a_killed_job_left_hidden_is_made_visible_and_a_restore_doubles_nothing(
    store: str, request: pytest.FixtureRequest
) -> None:
    written: Written = request.getfixturevalue(store)
    checkpoint, rows = left_hidden(written)
    before = written.visible()
    unconfirmed = written.collector.order("commit", *rows)
    assert unconfirmed.status_code == 409
    assert f"Repeat {NAME!r} in 'confirm'" in unconfirmed.json()["detail"]
    assert written.visible() == before

    done = written.collector.order("commit", *rows, confirm=NAME, reason="the job manager is gone").json()
    assert (done["outcome"], [step["outcome"] for step in done["steps"]]) == ("accepted", ["committed"] * 2), done
    after = written.visible()
    assert sum(after.values()) > sum(before.values())
    assert max(after.values()) == 1
    for row in rows:
        written.collector.wait_for(
            row["transaction"], "it is visible under its name", state="committed", verdict="settled"
        )
    audit = written.collector.rows("audit")[0]
    assert (audit["outcome"], audit["keys"]) == ("accepted", [row["key"] for row in rows])
    assert f"{checkpoint}/_metadata lists exactly this file" in json.dumps(audit["evidence"])

    written.job.start(ORDERS, restore=checkpoint)
    written.job.wait_for_end()
    require_each_once(written)


def test_a_restored_job_makes_them_visible_itself_and_an_order_comes_too_late(local: Written) -> None:
    checkpoint, rows = left_hidden(local)
    local.job.start(ORDERS, restore=checkpoint)
    for row in rows:
        local.collector.wait_for(row["transaction"], state="committed", verdict="settled")
    late = local.collector.order("commit", *rows, confirm=NAME)
    assert late.status_code == 409, late.text
    local.job.wait_for_end()
    require_each_once(local)


def test_files_made_visible_and_then_written_again_are_told_of_as_doubled(local: Written) -> None:
    checkpoint, rows = left_hidden(local)
    assert local.collector.order("commit", *rows, confirm=NAME).json()["outcome"] == "accepted"
    local.job.start(ORDERS, restore=checkpoint.with_name(f"chk-{LAST - 1}"))

    def told() -> list[dict[str, Any]]:
        return [row for row in local.collector.rows("losses") if row["verdict"] == "duplicated"]

    losses = wait_until("the losses", lambda: told() if len(told()) == PARALLELISM else None, LIMIT_S)
    assert {loss["transaction"] for loss in losses} == {row["transaction"] for row in rows}
    local.job.wait_for_end()
    seen = local.visible()
    assert max(seen.values()) == 2, "an independent reader sees them twice"


def test_files_that_are_removed_are_lost_as_far_as_is_known(local: Written) -> None:
    _, rows = left_hidden(local)
    for row in rows:
        target = Path(row["transaction"])
        (hidden,) = target.parent.glob(f".{target.name}.inprogress.*")
        hidden.unlink()
    refused = local.collector.order("commit", *rows, confirm=NAME)
    assert refused.status_code == 409
    for row in rows:
        local.collector.wait_for(row["transaction"], "neither the file nor", state="aborted", certainty="likely")
    names = {row["transaction"] for row in rows}

    def told() -> list[dict[str, Any]]:
        # The broker may have aborted transactions of other tests.
        return [loss for loss in local.collector.rows("losses") if loss["transaction"] in names]

    losses = wait_until("the losses", told, LIMIT_S)
    assert {(loss["verdict"], loss["certainty"]) for loss in losses} == {("lost", "likely")}


def test_what_a_killed_job_left_open_is_removed_once_no_checkpoint_names_it(local: Written, tmp_path: Path) -> None:
    files = tmp_path / "files"
    local.job.start(LONG_ORDERS)
    local.job.checkpoint(LAST)
    wait_until("files opened after the newest checkpoint", lambda: killed_with_open_files(local.job, files), LIMIT_S)
    local.job.start(LONG_ORDERS, restore=local.job.newest_checkpoint())
    # Its own checkpoints name what it has open; one that is taken 30 s after does not name what it had open before.
    # Directories are looked through each 10 s, and on a busy machine Flink took 40 s to its first checkpoint.
    left = wait_until("files that no checkpoint names", lambda: unnamed(local), LEFT_LIMIT_S)
    done = [local.collector.order("abort", row, confirm=row["transaction"]).json() for row in left]
    assert {each["steps"][0]["outcome"] for each in done} == {"aborted"}, done
    for row in left:
        target = Path(row["transaction"])
        assert not list(target.parent.glob(f".{target.name}.inprogress.*"))
        local.collector.wait_for(row["transaction"], state="aborted", verdict="settled")
    local.job.wait_for_end(LONG_ORDERS / PER_SECOND)
    expected = Counter({f"order {number}": 1 for number in range(LONG_ORDERS)})
    assert local.visible() == expected


def killed_with_open_files(job: FilesJob, files: Path) -> bool:
    """Kill the job if it has written to a file since its newest checkpoint: it closes all files at each."""
    with job.frozen():
        taken = (job.newest_checkpoint() / "_metadata").stat().st_mtime_ns
        found = any(path.stat().st_mtime_ns > taken for path in files.glob(".*.inprogress.*"))
        if found:
            job.kill()
    return found


def unnamed(written: Written) -> list[dict[str, Any]]:
    return [
        row for row in written.rows() if (row["rule"], row["verdict"], row["certainty"]) == (38, "abort it", "likely")
    ]
