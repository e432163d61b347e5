"""What a damaged checkpoint directory is told to be, and that what it is told to do leaves one that Spark goes on from."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory
from indoubt.pipeline.checkpoints.damaged_logs import FINISHED, Written, check_logs, written_by
from indoubt.pipeline.config.settings import PipelineSettings
from tests.unit.lifecycle.decision_records import decision, outcome, run
from tests.unit.lifecycle.ledgers import fold
from tests.unit.lifecycle.test_identity import HANDLE
from tests.unit.pipeline.checkpoints.advised_steps import steps
from tests.unit.pipeline.checkpoints.spark_logs import COMMIT, COMMIT_V2, OFFSET, OFFSET_V2, spark_logs

SETTLED = {"is_settled": True}


def directory(path: Path) -> CheckpointDirectory:
    settings = {"job": "passthrough", "bootstrap_servers": "h:1", "prefix": "p", "source": "in", "sink": "out"}
    return CheckpointDirectory.open(PipelineSettings.read(settings | {"checkpoint": str(path)}))


def refusal(path: Path, written: Written | None) -> str:
    with pytest.raises(SettingsError) as refused:
        check_logs(directory(path), written)
    return str(refused.value)


def execute(path: Path, said: str) -> None:
    for step in steps(said):
        match step:
            case ("remove", name):
                (path / name).unlink(missing_ok=True)
            case ("write", name, text):
                (path / name).write_text(text)
            case ("copy", one, other):
                (path / other).write_bytes((path / one).read_bytes())


def numbers(path: Path, folder: str) -> list[int]:
    return directory(path).numbers(folder)


@pytest.mark.parametrize(("planned", "committed"), [(range(0), range(0)), (range(1), range(0)), (range(9), range(9))])
def test_a_whole_directory_is_let_through(tmp_path, planned, committed):
    spark_logs(tmp_path, planned, committed)
    check_logs(directory(tmp_path), None)


def test_files_that_spark_does_not_read_at_its_start_may_be_gone(tmp_path):
    spark_logs(tmp_path, range(4, 9), range(5, 9), damaged=["offsets/5", "commits/6"])
    check_logs(directory(tmp_path), Written(last=8, **SETTLED))


@pytest.mark.parametrize(("offset", "commit"), [(OFFSET, COMMIT), (OFFSET_V2, COMMIT_V2), (OFFSET, "v3\n{}")])
def test_every_version_of_spark_4_2_is_known(tmp_path, offset, commit):
    spark_logs(tmp_path, range(3), range(3), offset=offset, commit=commit)
    check_logs(directory(tmp_path), None)


@pytest.mark.parametrize(
    ("files", "named"),
    [({"offset": "v3\n{}\n-"}, "offsets/1 has version v3"), ({"commit": "v4\n{}"}, "commits/2 has version v4")],
)
def test_files_of_a_newer_spark_are_named_with_their_version(tmp_path, files, named):
    spark_logs(tmp_path, range(3), range(3), **files)
    said = refusal(tmp_path, None)
    assert named in said
    assert "Go on with the Spark that wrote it" in said
    assert "damaged" not in said


@pytest.mark.parametrize("content", ["", "\0" * 40, "v1", "v1\n{}", 'v1\n{}\n{"t":{"0":', "x"])
def test_a_file_that_is_cut_or_zeroed_is_damaged(tmp_path, content):
    spark_logs(tmp_path, range(4), range(3))
    (tmp_path / "offsets" / "3").write_text(content)
    assert "offsets/3" in refusal(tmp_path, Written(last=2, **SETTLED))


WHY = {
    "compared": "compared with what is committed",
    "finished": "is finished, and is not run again",
    "undecided": "has no decision of",
    "unless": "under another guarantee",
    "no log": "No decision log says",
}
# What is damaged, what the log knows, what then is the newest planned and finished batch, and why. Written are 0 to 3.
REPAIRED = [
    (["commits/3"], Written(last=3, **SETTLED), (3, 2), {"compared"}),
    (["commits/3"], Written(last=3, is_settled=False), (3, 3), {"finished"}),
    (["commits/3"], Written(last=2, **SETTLED), (3, 3), {"finished"}),
    (["commits/3"], None, (3, 3), {"finished"}),
    (["offsets/3", "commits/3"], Written(last=2, **SETTLED), (2, 2), {"undecided", "unless"}),
    (["offsets/3", "-commits/3"], Written(last=2, **SETTLED), (2, 2), {"undecided"}),
    (["offsets/3", "-commits/3"], None, (2, 2), {"no log"}),
    (["offsets/3", "-commits/3", "commits/2"], Written(last=2, **SETTLED), (2, 1), {"undecided", "compared"}),
    (["-commits/3", "commits/2"], Written(last=2, **SETTLED), (3, 2), {"finished"}),
    (["-offsets/2"], Written(last=3, is_settled=False), (3, 3), {"finished"}),
    (["-offsets/2", "-commits/3"], Written(last=3, **SETTLED), (3, 3), {"finished"}),
    (["-offsets/2", "commits/3"], Written(last=3, **SETTLED), (3, 3), {"finished"}),
    (["-offsets/2", "-commits/3", "-commits/2"], Written(last=1, **SETTLED), (1, 1), {"undecided"}),
    (["-offsets/2", "-commits/3"], Written(last=1, **SETTLED), (1, 1), {"undecided", "unless"}),
    (["-offsets/3"], Written(last=2, **SETTLED), (2, 2), {"undecided", "unless"}),
]


@pytest.mark.parametrize(("damaged", "written", "becomes", "why"), REPAIRED)
def test_what_is_said_makes_the_directory_whole(tmp_path, damaged, written, becomes, why):
    spark_logs(tmp_path, range(4), range(4), damaged=damaged)
    said = refusal(tmp_path, written)
    assert {reason for reason, text in WHY.items() if text in said} == why
    assert (FINISHED in said) == ("finished" in why and damaged != ["-offsets/2"]), "a whole file is not written again"
    told = [("", step[2]) if step[0] == "copy" else step for step in steps(said) if ".crc" not in step[1]]
    execute(tmp_path, said)
    check_logs(directory(tmp_path), written)
    assert (numbers(tmp_path, "offsets")[-1], numbers(tmp_path, "commits")[-1]) == becomes
    checksums = [
        tmp_path / folder / f".{number}.crc" for folder, _, number in (step[1].partition("/") for step in told)
    ]
    assert not [file for file in checksums if file.exists()], "Hadoop would compare the new file with it"


@pytest.mark.parametrize(
    ("planned", "committed", "damaged", "written", "becomes"),
    [
        (range(1), range(1), ["commits/0"], Written(last=0, **SETTLED), ([0], [])),
        (range(1), range(1), ["commits/0"], None, ([0], [0])),
        (range(2), range(0), ["offsets/1"], None, ([0], [])),
    ],
)
def test_the_first_batches_are_repaired_like_others(tmp_path, planned, committed, damaged, written, becomes):
    spark_logs(tmp_path, planned, committed, damaged=damaged)
    execute(tmp_path, refusal(tmp_path, written))
    assert (numbers(tmp_path, "offsets"), numbers(tmp_path, "commits")) == becomes


@pytest.mark.parametrize(
    ("planned", "committed", "damaged"),
    [
        (range(2), range(0), ["-offsets/0"]),
        (range(0), range(2), []),
        (range(1), range(1), ["offsets/0"]),
        (range(57, 59), range(0), ["offsets/57", "offsets/58"]),
    ],
)
def test_nothing_is_begun_anew_that_may_have_been_written(tmp_path, planned, committed, damaged):
    spark_logs(tmp_path, planned, committed, damaged=damaged)
    assert "Restore these files" in refusal(tmp_path, None)


@pytest.mark.parametrize(
    ("damaged", "written"),
    [
        (["offsets/3", "commits/3"], Written(last=3, **SETTLED)),
        (["offsets/3", "-commits/3"], Written(last=3, is_settled=False)),
        (["-offsets/3"], Written(last=3, **SETTLED)),
        (["-offsets/3"], None),
        (["offsets/3", "commits/3"], None),
        (["-offsets/2", "-commits/3"], Written(last=3, is_settled=False)),
        (["-offsets/2", "-commits/3"], Written(last=2, **SETTLED)),
    ],
)
def test_where_only_a_backup_knows_nothing_is_to_be_removed(tmp_path, damaged, written):
    spark_logs(tmp_path, range(4), range(4), damaged=damaged)
    said = refusal(tmp_path, written)
    assert "Restore these files" in said
    assert ("are decided, by the decision log" in said) == (written is not None)
    assert "Do this" not in said


def test_ids_of_state_files_are_not_made_up(tmp_path):
    spark_logs(tmp_path, range(4), range(4), damaged=["commits/3"], commit=COMMIT_V2)
    assert FINISHED not in refusal(tmp_path, Written(last=2, **SETTLED))
    (tmp_path / "commits" / "0").write_text(COMMIT)
    assert FINISHED not in refusal(tmp_path, Written(last=2, **SETTLED)), "that of the newest whole file counts"
    assert "remove offsets/3" in refusal(tmp_path, Written(last=2, **SETTLED)), "it is planned again, not run again"
    said = refusal(tmp_path, Written(last=3, is_settled=False))
    assert "remove commits/3" in said
    execute(tmp_path, said)
    check_logs(directory(tmp_path), None)


def test_ids_of_the_newest_batch_are_enough(tmp_path):
    spark_logs(tmp_path, range(4), range(4), damaged=["-offsets/2", "-commits/2"], commit=COMMIT_V2)
    execute(tmp_path, refusal(tmp_path, Written(last=3, is_settled=False)))
    assert numbers(tmp_path, "offsets") == [0, 1, 2, 3]


@pytest.mark.parametrize("batches", [1, 2])
def test_first_batches_without_a_decision_begin_anew(tmp_path, batches):
    spark_logs(tmp_path, range(batches), range(0), damaged=[f"offsets/{batch}" for batch in range(batches)])
    assert "Remove the folders offsets, commits and state" in refusal(tmp_path, None)


def test_the_log_says_what_is_written_once_it_decided_something():
    ledger = fold([(0, run())])
    assert written_by(ledger, "L") is None, "earlier batches may be another checkpoint id's"
    empty = copy.deepcopy(ledger)
    empty.apply(1, decision(0, batch=2, handles=()))
    assert written_by(empty, "L") == Written(last=2, is_settled=False)
    one, other, replayed = (replace(HANDLE, transaction=f"p-{slot}-0") for slot in range(3))
    decided = decision(0, batch=3, handles=(one, other))
    ledger.apply(1, decided)
    assert written_by(ledger, "L") == Written(last=3, is_settled=False)
    ledger.apply(2, outcome(decided, Settled.COMMITTED, one))
    assert written_by(ledger, "L") == Written(last=3, is_settled=False)
    lost = copy.deepcopy(ledger)
    lost.apply(3, outcome(decided, Settled.LOST, other))
    assert written_by(lost, "L") == Written(last=3, is_settled=False)
    again = decision(4, batch=3, handles=(replayed,))
    for offset, record in enumerate((run(), again, outcome(again, Settled.COMMITTED, replayed)), 4):
        lost.apply(offset, record)
    assert written_by(lost, "L") == Written(last=3, is_settled=True), "the last decision lists all that was missing"
    ledger.apply(3, outcome(decided, Settled.COMMITTED, other))
    assert written_by(ledger, "L") == Written(last=3, is_settled=True)
