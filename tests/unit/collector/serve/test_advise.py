"""``indoubt advise`` and GET /restores over real history: of a job's transactions most have left memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from indoubt.collector.records.formats.flink_records import Committable, FlinkCheckpoint, FlinkJob, ListedFile
from indoubt.collector.records.formats.pending_files import FileSeen, PendingFile, Standing
from indoubt.collector.records.formats.transaction_state import BrokerStatus
from indoubt.collector.records.observations import BranchListed
from indoubt.collector.serve.cli import arguments, main
from indoubt.collector.serve.cli.client import Client, Refused
from tests.unit.collector.observations import T0, broker_record
from tests.unit.collector.serve.api.served_api import VIEWER, Api, observed
from tests.unit.collector.verdicts.flink_given import JOB, chk, completed, job, listing

pytestmark = pytest.mark.slow
END = {
    "committed": (BrokerStatus.PREPARE_COMMIT, BrokerStatus.COMPLETE_COMMIT),
    "aborted": (BrokerStatus.PREPARE_ABORT, BrokerStatus.COMPLETE_ABORT),
    "open": (),
}


class FlinkApi(Api):
    """A job that failed behind its checkpoint 40: a transaction a checkpoint, ten seconds apart, each in the next one's list."""

    def __init__(self, directory: Path, last: str = "committed") -> None:
        super().__init__(directory)
        self._offsets = count(1_000)
        self.tell(job(state="FAILED"))
        for number in range(1, 41):
            self.written(number, last if number == 40 else "committed")
            self.tell(completed(number))
            written = listing(number, committable(number), written=10_000 * number + 100)
            self.current.flink.see_committables([written])
        # Behind the last checkpoint: a transaction that no list has.
        self.written(41, "open")
        for number in range(300):
            self.ended(f"billing-{number}", 500_000 + number)
        self.store.flushed()

    def tell(self, seen: FlinkJob | FlinkCheckpoint) -> None:
        self.current.observe([observed(next(self._offsets), seen)])

    def written(self, number: int, end: str) -> None:
        start = 10_000 * (number - 1) + 200
        statuses = (BrokerStatus.ONGOING, *END[end])
        for status in statuses:
            at = start if status is BrokerStatus.ONGOING else 10_000 * number + 150
            record = broker_record(
                status, at, transaction=f"orders-0-{number}", producer_id=number, epoch=0, start=start
            )
            self.current.observe([observed(next(self._offsets), record)])

    def ended(self, id_: str, at: int) -> None:
        """Have another application's transaction end: older ones leave memory."""
        for status in (BrokerStatus.ONGOING, *END["committed"]):
            record = broker_record(status, at, transaction=id_, producer_id=9_000 + at, epoch=0, start=at)
            self.current.observe([observed(next(self._offsets), record)])

    def advise(self, *words: str) -> int:
        http = self.client
        http.headers["Authorization"] = "Bearer viewer-token"
        return main.execute(Client("http://api", http), arguments.parser().parse_args(["advise", *words]))


def committable(number: int) -> Committable:
    return Committable(f"orders-0-{number}", number, 0)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkApi]:
    made = FlinkApi(Path(tmp_path_factory.mktemp("advise")))
    yield made
    made.store.close()


def test_each_retained_checkpoint_counts_what_history_has(api: FlinkApi) -> None:
    with api.current.reading() as state:
        assert not any(identity.transaction == "orders-0-21" for identity in state.broker), "it has left memory"
    rows = api.client.get(f"/api/v1/restores?job={JOB}", headers=VIEWER).json()["rows"]
    assert [(row["checkpoint"], row["lost"], row["twice"], row["commits"], row["rolled_back"]) for row in rows] == [
        (number, 0, 40 - number, 0, 1) for number in range(40, 20, -1)
    ]
    newest = rows[0]
    assert newest["is_newest"]
    assert newest["is_safe"]
    assert (newest["pipeline"], newest["path"], newest["kind"]) == ("eu/orders", chk(40), "CHECKPOINT")
    assert newest["certainty"] == "likely"
    assert newest["keys"] == {"rolled back": [f"kafka:orders-0-41:41:0@{T0 + 400_200}"]}


def test_the_exit_code_is_about_the_newest_checkpoint_or_the_one_that_is_named(
    api: FlinkApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert api.advise("eu/orders") == 0
    said = capsys.readouterr().out
    assert "checkpoint 40 of eu/orders, the newest, written" in said
    assert "Leave 1 open transaction to the restore, which writes their rows again: commit none." in said
    assert "Writes 19 committed transactions a second time: a later checkpoint has them." in said
    assert "twice: kafka:orders-0-22:22:0@" in said
    assert " and 14 more" in said
    assert api.advise("orders", "--checkpoint", "39") == 4
    assert api.advise(JOB, "--json", "--checkpoint", "40") == 0
    with pytest.raises(ValueError, match=r"checkpoint 7 is not retained, or its list was not read; known: 40, 39"):
        api.advise(JOB, "--checkpoint", "7")
    with pytest.raises(Refused, match="invoices is the id or name of no Flink job that is known"):
        api.advise("invoices")


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("aborted", "Loses 1 transaction: listed, but undone. A restore from before them writes them again."),
        ("open", "Commit 1 open transaction first, or restore before the first of it times out."),
    ],
)
def test_what_is_lost_or_must_be_committed_first_fails_the_gate(
    tmp_path: Path, last: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    api = FlinkApi(tmp_path, last)
    assert api.advise(JOB) == 4
    assert said in capsys.readouterr().out
    api.store.close()


@pytest.mark.parametrize("is_told", [False, True])
def test_what_its_sink_leaves_out_is_lost_by_a_restore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_told: bool
) -> None:
    api, target = FlinkApi(tmp_path), "paimon:u@40/data-1"
    files = (PendingFile(target=target, size=None, checkpoint_id=40),)
    named = frozenset({committable(40), ListedFile(target)})
    api.current.flink.see_committables([replace(listing(40, written=400_100), committables=named, files=files)])
    api.current.flink.see_files("eu", {target: FileSeen(standing=Standing.HIDDEN)})
    if is_told:
        told = BranchListed(instance="eu-file_sink", resource_manager="paimon", transaction=target, at_ms=T0 + 402_000)
        api.current.observe([observed(5_000, told)])
    assert api.advise(JOB) == 0
    api.current.flink.see_files("eu", {target: FileSeen(standing=Standing.HIDDEN, why="a later number is there")})
    assert api.advise(JOB) == 4
    assert "Loses 1 transaction: listed, but undone." in capsys.readouterr().out
    api.store.close()


def test_several_jobs_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    api = FlinkApi(tmp_path)
    api.tell(job(id_="b" * 32, cluster="us"))
    with pytest.raises(Refused, match=f"orders is the name of several jobs: give one id of {JOB}, {'b' * 32}"):
        api.advise("orders")
    assert api.advise("eu/orders") == 0
    api.current.flink.see_committables([listing(9, committable(9), job="c" * 32)])
    assert api.advise("c" * 32) == 4
    api.store.close()


def test_a_job_of_which_no_list_was_read_is_not_called_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api = FlinkApi(tmp_path)
    api.tell(job(id_="b" * 32, name="lake"))
    assert api.advise("lake") == 4
    assert "no retained checkpoint of it was read" in capsys.readouterr().out
    api.store.close()
