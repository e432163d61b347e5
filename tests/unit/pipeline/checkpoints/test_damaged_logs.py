"""What a damaged checkpoint directory is told to be, and that what it is told to do leaves one that Spark goes on from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lifecycle.decision_ledger import DecisionLedger
from lifecycle.decisions import BatchAttempt, Decision, Outcome, Ruling, RunStarted, Settled
from lifecycle.errors import SettingsError
from lifecycle.identity import Handle
from pipeline.checkpoints.checkpoint_directory import CheckpointDirectory
from pipeline.checkpoints.damaged_logs import FINISHED, Written, check_logs, written_by
from pipeline.config.settings import PipelineSettings
from tests.unit.pipeline.checkpoints.spark_logs import COMMIT, COMMIT_V2, OFFSET, OFFSET_V2, spark_logs

SETTLED = {"is_settled": True}


def directory(path: Path) -> CheckpointDirectory:
    settings = {"job": "passthrough", "bootstrap_servers": "h:1", "prefix": "p", "source": "in", "sink": "out"}
    return CheckpointDirectory.open(PipelineSettings.read(settings | {"checkpoint": str(path)}))


def refusal(path: Path, written: Written | None) -> str:
    with pytest.raises(SettingsError) as refused:
        check_logs(directory(path), written)
    return str(refused.value)


def carry_out(path: Path, said: str) -> None:
    """Do to the directory what the text says, to the letter."""
    (steps,) = re.findall(r"Do this, then start again: (.*?)\. (?=[A-Z])", said)
    for step in steps.split("; "):
        if step.startswith("remove "):
            for name in re.findall(r"(?:offsets|commits)/\.?\d+(?:\.crc)?", step):
                (path / name).unlink(missing_ok=True)
        elif match := re.match(r"write two lines into (\S+), v1 and (\{.*?\})", step):
            (path / match[1]).write_text(f"v1\n{match[2]}")
        elif match := re.match(r"copy (\S+) to ([^\s,]+)", step):
            (path / match[2]).write_bytes((path / match[1]).read_bytes())
        else:
            raise AssertionError(step)
        for name in re.findall(r"and remove (\S+\.crc)", step):
            (path / name).unlink(missing_ok=True)


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


# What is damaged, the last decided batch, and what is then the newest planned and finished batch. Written are 0 to 3.
REPAIRED = [
    pytest.param(["commits/3"], Written(last=3, **SETTLED), (3, 2), "compared", id="commit, decided"),
    pytest.param(
        ["commits/3"], Written(last=3, is_settled=False), (3, 3), "finished", id="commit, decided, not settled"
    ),
    pytest.param(["commits/3"], Written(last=2, **SETTLED), (3, 3), "finished", id="commit, without rows"),
    pytest.param(["commits/3"], None, (3, 3), "finished", id="commit, no log"),
    pytest.param(
        ["offsets/3", "commits/3"], Written(last=2, **SETTLED), (2, 2), "no decision", id="both, without rows"
    ),
    pytest.param(
        ["offsets/3", "-commits/3"], Written(last=2, **SETTLED), (2, 2), "no decision", id="offsets, undecided"
    ),
    pytest.param(["offsets/3", "-commits/3"], None, (2, 2), "written once more", id="offsets, no log"),
    pytest.param(["-offsets/2"], Written(last=3, is_settled=False), (3, 3), "finished", id="gap, finished"),
    pytest.param(["-offsets/2", "-commits/3"], Written(last=3, **SETTLED), (3, 3), "finished", id="gap, settled"),
    pytest.param(["-offsets/2", "commits/3"], Written(last=3, **SETTLED), (3, 3), "finished", id="gap and commit"),
    pytest.param(
        ["-offsets/2", "-commits/3", "-commits/2"], Written(last=1, **SETTLED), (1, 1), "no decision", id="gap"
    ),
    pytest.param(["-offsets/3"], Written(last=2, **SETTLED), (2, 2), "no decision", id="offsets gone, finished"),
]


@pytest.mark.parametrize(("damaged", "written", "becomes", "why"), REPAIRED)
def test_what_is_said_makes_the_directory_whole(tmp_path, damaged, written, becomes, why):
    spark_logs(tmp_path, range(4), range(4), damaged=damaged)
    said = refusal(tmp_path, written)
    assert all(name.removeprefix("-") in said for name in damaged if name != "-commits/3" and name != "-commits/2")
    assert why in said
    carry_out(tmp_path, said)
    check_logs(directory(tmp_path), written)
    assert (numbers(tmp_path, "offsets")[-1], numbers(tmp_path, "commits")[-1]) == becomes
    made_whole = [tmp_path / name.removeprefix("-") for name in damaged if (tmp_path / name.removeprefix("-")).exists()]
    assert not [file for file in made_whole if (file.parent / f".{file.name}.crc").exists()], "Hadoop compares with it"


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
    assert "Do this" not in said


def test_ids_of_state_files_are_not_made_up(tmp_path):
    spark_logs(tmp_path, range(4), range(4), damaged=["commits/3"], commit=COMMIT_V2)
    assert FINISHED not in refusal(tmp_path, Written(last=2, **SETTLED))
    said = refusal(tmp_path, Written(last=3, is_settled=False))
    assert "remove commits/3" in said
    carry_out(tmp_path, said)
    check_logs(directory(tmp_path), None)


def test_a_first_batch_without_decision_begins_anew(tmp_path):
    spark_logs(tmp_path, range(1), range(0), damaged=["offsets/0"])
    assert "Remove the folders offsets, commits and state" in refusal(tmp_path, None)


def test_the_log_says_what_is_written_once_it_decided_something():
    ledger = DecisionLedger()
    ledger.apply(0, RunStarted(prefix="p", checkpoint_id="L", run="r", at_ms=0))
    assert written_by(ledger, "L") is None, "earlier batches may be another checkpoint id's"
    handle = Handle(
        resource_manager="kafka",
        transaction="p-0-0",
        producer_id=1,
        producer_epoch=0,
        slot=0,
        rows=1,
        bytes=1,
        fingerprint="f",
        opened_at_ms=0,
        prepared_at_ms=0,
        timeout_ms=60_000,
    )
    attempt = BatchAttempt(checkpoint_id="L", batch=3, attempt=0)
    ledger.apply(
        1, Decision(prefix="p", batch_attempt=attempt, ruling=Ruling.COMMIT, handles=(handle,), who="r", at_ms=0)
    )
    assert written_by(ledger, "L") == Written(last=3, is_settled=False)
    ledger.apply(
        2,
        Outcome(
            prefix="p", batch_attempt=attempt, handle_keys=(handle.key,), settled=Settled.COMMITTED, who="r", at_ms=0
        ),
    )
    assert written_by(ledger, "L") == Written(last=3, is_settled=True)
