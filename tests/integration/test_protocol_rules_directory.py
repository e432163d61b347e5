"""Rules of the checkpoint directory: what is the same one, what is taken over, what is older than its log, what is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.checkpoints.checkpoint_directory import FILE, TAKE_OVER, CheckpointDirectory
from indoubt.pipeline.recovery.adoption import Adoption
from indoubt.pipeline.recovery.sweep import Sweep
from indoubt.pipeline.runtime.crash_points import CrashPoint
from indoubt.resource_managers.topics.decision_log import DecisionLog
from tests.integration.pipeline_process import make_topics, read_committed
from tests.integration.protocol_run import (
    ProtocolRun,
    ProtocolSinks,
    Stopped,
    finish,
    protocol_sinks,
    spark_checkpoint,
    stop_at,
    superseded,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def sinks(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


@pytest.fixture(params=["file", "s3a"])
def uri(request, sinks) -> str:
    """Return the URI of a checkpoint directory that no other test uses."""
    if request.param == "file":
        return f"file://{sinks.checkpoint}"
    return f"{request.getfixturevalue('object_store')}/{uuid.uuid4().hex}"


@pytest.fixture
def other_log(connection) -> str:
    name = f"decisions-{uuid.uuid4().hex[:8]}"
    DecisionLog(connection, name).ensure_topic()
    return name


def stopped_after_commit(patch: pytest.MonkeyPatch, run: ProtocolRun, *values: bytes, batch: int = 0) -> None:
    """Commit a batch and die before Spark's commit log has it."""
    message = run.slot(0, *values, batch=batch)
    stop_at(patch, CrashPoint.AFTER_COMMIT)
    with pytest.raises(Stopped):
        run.commit(message, batch=batch)


def before(patch: pytest.MonkeyPatch, owner: type, name: str, deed: Callable[[], Any]) -> None:
    """Do something just before a method is called next."""
    real = getattr(owner, name)

    def called(*arguments: Any) -> Any:
        patch.undo()
        deed()
        return real(*arguments)

    patch.setattr(owner, name, called)


def test_a_directory_has_one_checkpoint_id_wherever_its_uri_is_opened(sinks, uri, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        stopped_after_commit(patch, sinks.run(checkpoint=uri), b"a")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for spelled in (uri, uri.replace("file://", ""), uri.replace("s3a:", "s3:")):
        later = sinks.run(checkpoint=spelled)
        later.commit(later.slot(0, b"a"))
    sinks.expect(b"a", pending=0)


def test_a_changed_sink_is_refused_at_a_uri_too(sinks, uri, monkeypatch):
    stopped_after_commit(monkeypatch, sinks.run(checkpoint=uri), b"a")
    make_topics(sinks.connection, f"other-{sinks.prefix}", partitions=1)
    with pytest.raises(SettingsError, match="its last batch is unfinished"):
        sinks.run(checkpoint=uri, sink=f"other-{sinks.prefix}")


def test_spark_gets_the_directory_that_was_read(sinks, monkeypatch):
    monkeypatch.chdir(sinks.directory)
    assert sinks.run(checkpoint="checkpoint").recovered.checkpoint == f"file://{sinks.checkpoint}"


def test_a_directory_that_cannot_be_opened_is_refused(sinks, object_store):
    for location in ("nope://bucket/path", "s3a://no-such-bucket/path"):
        with pytest.raises(SettingsError, match=location):
            sinks.run(checkpoint=location)


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_sparks_properties_say_how_to_reach_the_store_of_the_checkpoint_id(sinks, object_store, monkeypatch, scheme):
    """They come before the environment, which Spark's own client does not ask for an endpoint."""
    given = {
        "endpoint": scheme + os.environ["AWS_ENDPOINT_URL"].removeprefix("http://"),
        "endpoint.region": "us-east-1",
    }
    given |= {"access.key": "key", "secret.key": "secret", "connection.ssl.enabled": "false"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    properties = ",".join(f"spark.hadoop.fs.s3a.{name}={value}" for name, value in given.items())
    uri = f"{object_store}/{uuid.uuid4().hex}"
    first = sinks.recovery(checkpoint=uri, spark_properties=properties).recover()
    assert sinks.recovery(checkpoint=uri, spark_properties=properties).recover().identity == first.identity


@pytest.mark.parametrize("left", [None, "{"])
def test_a_missing_checkpoint_id_is_refused_with_its_content(sinks, monkeypatch, left):
    stopped_after_commit(monkeypatch, sinks.run(), b"a")
    file = sinks.checkpoint / FILE
    kept = json.loads(file.read_text())
    file.unlink() if left is None else file.write_text(left)
    with pytest.raises(
        SettingsError, match=r"last decided batch is 0, decided at .*write into it: (\{.*?\}) \. "
    ) as refused:
        sinks.run()
    file.write_text(re.findall(r"write into it: (\{.*?\}) \. ", str(refused.value))[0])
    assert json.loads(file.read_text()) == kept
    later = sinks.run()
    later.commit(later.slot(0, b"a"))
    sinks.expect(b"a", pending=0)


def test_the_directory_of_a_plain_query_is_taken_over_only_by_hand(sinks):
    spark_checkpoint(sinks.checkpoint, planned=4, committed=4)
    with pytest.raises(SettingsError, match=f"is missing.*{re.escape(json.dumps(TAKE_OVER))}") as refused:
        sinks.run()
    assert "last decided batch" not in str(refused.value)
    (sinks.checkpoint / FILE).write_text(json.dumps(TAKE_OVER))
    for value in (b"5", b"6"):
        finish(sinks, sinks.run(), value, batch=int(value))
    sinks.expect(b"5", b"6", pending=0)


def test_a_directory_restored_from_an_old_backup_is_refused(sinks):
    run = sinks.run()
    for batch in range(4):
        finish(sinks, run, b"%d" % batch, batch)
    spark_checkpoint(sinks.checkpoint, planned=1, committed=1)
    for changes in ({}, {"prefix": f"other-{sinks.prefix}"}):
        with pytest.raises(SettingsError, match="batch 3 was decided, and the last batch planned in it is 1"):
            sinks.run(**changes)
    assert run.recovery.superseded_by(run.options.attempt) is None, "a refused start ends no other run"
    spark_checkpoint(sinks.checkpoint, planned=3, committed=3)
    finish(sinks, sinks.run(), b"4", batch=4)
    sinks.expect(b"0", b"1", b"2", b"3", b"4", pending=0)


def test_a_log_that_was_made_anew_is_refused(sinks, other_log):
    finish(sinks, sinks.run(), b"a", batch=0)
    file = sinks.checkpoint / FILE
    file.write_text(file.read_text().replace("transaction_decisions", other_log))
    with pytest.raises(SettingsError, match=f"decision log '{other_log}' does not know checkpoint directory"):
        sinks.run(decisions_topic=other_log)


@pytest.mark.parametrize("changed", ["prefix", "decisions_topic", "both"])
def test_a_live_driver_may_not_decide_once_its_directory_is_taken_over(sinks, other_log, changed):
    first = sinks.run()
    finish(sinks, first, b"a", batch=0)
    other = {"prefix": f"other-{sinks.prefix}", "decisions_topic": other_log}
    second = sinks.run(**(other if changed == "both" else {changed: other[changed]}))
    assert second.options.checkpoint_id != first.options.checkpoint_id
    superseded(first, b"b", batch=1)
    assert first.recovery.superseded_by(first.options.attempt) is not None
    second.commit(second.slot(0, b"b", batch=1), batch=1)
    sinks.expect(b"a", b"b", pending=0)


def test_what_the_earlier_pipeline_decided_at_the_last_moment_is_settled(sinks, monkeypatch):
    """It plans and decides a batch after the directory was found finished, and dies."""
    first = sinks.run()
    finish(sinks, first, b"a", batch=0)

    def decide() -> None:
        message = first.slot(0, b"b", batch=1)
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, CrashPoint.AFTER_DECISION)
            with pytest.raises(Stopped):
                first.commit(message, batch=1)

    before(monkeypatch, DecisionLog, "start_run", decide)
    with pytest.raises(SettingsError, match=r"its last batch is unfinished \(1\)"):
        sinks.run(prefix=f"other-{sinks.prefix}")
    sinks.expect(b"a", b"b", pending=0)
    again = sinks.run()
    again.commit(again.slot(0, b"b", batch=1), batch=1)
    spark_checkpoint(sinks.checkpoint, planned=1, committed=1)
    finish(sinks, sinks.run(prefix=f"other-{sinks.prefix}"), b"c", batch=2)
    sinks.expect(b"a", b"b", b"c", pending=0)


def test_what_the_earlier_pipeline_left_undecided_is_rolled_back(sinks):
    first = sinks.run()
    finish(sinks, first, b"a", batch=0)
    first.slot(0, b"b", batch=1)
    spark_checkpoint(sinks.checkpoint, planned=0, committed=0)
    assert sinks.pending() == 1
    sinks.run(prefix=f"other-{sinks.prefix}")
    sinks.expect(b"a", pending=0)


def test_a_prefix_that_another_directory_uses_now_is_left_alone(sinks):
    finish(sinks, sinks.run(), b"a", batch=0)
    living = sinks.run(checkpoint=str(sinks.directory / "another"))
    message = living.slot(0, b"b")
    finish(sinks, sinks.run(prefix=f"other-{sinks.prefix}"), b"c", batch=1)
    living.commit(message)
    sinks.expect(b"a", b"b", b"c", pending=0)


def test_a_copy_with_its_own_sink_leaves_the_original_undisturbed(sinks):
    one = sinks.run()
    finish(sinks, one, b"0", batch=0)
    copy = sinks.directory / "copy"
    shutil.copytree(sinks.checkpoint, copy)
    other = f"other-{sinks.prefix}"
    make_topics(sinks.connection, other, partitions=1)
    finish(sinks, one, b"1", batch=1)
    one = sinks.run()  # Outcomes of batch 1 stand in the log.
    two = sinks.run(checkpoint=str(copy), prefix=other, sink=other)
    finish(sinks, two, b"1", batch=1, directory=copy)
    finish(sinks, one, b"2", batch=2)
    assert read_committed(sinks.connection, other) == Counter([b"1"])
    sinks.expect(b"0", b"1", b"2", pending=0)


def test_a_copied_directory_with_the_same_sink_ends_the_original(sinks):
    one = sinks.run()
    finish(sinks, one, b"0", batch=0)
    copy = sinks.directory / "copy"
    shutil.copytree(sinks.checkpoint, copy)
    two = sinks.run(checkpoint=str(copy), prefix=f"other-{sinks.prefix}")
    superseded(one, b"1", batch=1)
    finish(sinks, two, b"1", batch=1, directory=copy)
    sinks.expect(b"0", b"1", pending=0)


def test_what_a_copys_original_decided_last_is_not_written_again(sinks, monkeypatch):
    one = sinks.run()
    finish(sinks, one, b"0", batch=0)
    copy = sinks.directory / "copy"
    shutil.copytree(sinks.checkpoint, copy)
    before(monkeypatch, DecisionLog, "start_run", lambda: finish(sinks, one, b"1", batch=1))
    with pytest.raises(SettingsError, match="batch 1 was decided, and the last batch planned in it is 0"):
        sinks.run(checkpoint=str(copy), prefix=f"other-{sinks.prefix}")
    finish(sinks, sinks.run(), b"2", batch=2)
    sinks.expect(b"0", b"1", b"2", pending=0)


@pytest.mark.parametrize("changed", ["prefix", "decisions_topic", "both"])
def test_an_original_is_refused_after_its_copy_was_taken_over(sinks, other_log, changed):
    """Nothing in the original's own directory says so: the log that it goes on in does, behind a snapshot too."""
    finish(sinks, sinks.run(), b"0", batch=0)
    copy, third = sinks.directory / "copy", sinks.directory / "third"
    for directory in (copy, third):
        shutil.copytree(sinks.checkpoint, directory)
    other = {"prefix": f"other-{sinks.prefix}", "decisions_topic": other_log}
    changes = other if changed == "both" else {changed: other[changed]}
    two = sinks.run(checkpoint=str(copy), **changes)
    finish(sinks, two, b"1", batch=1, directory=copy)
    runs = sinks.ledger().checkpoint_ids(sinks.prefix)
    who = changes.get("prefix", sinks.prefix)
    refused = rf"was taken over at .* by the pipeline with prefix '{who}', .*it goes on in file://{copy}"
    for read in (DecisionLog(sinks.connection).read_to_end, lambda: DecisionLog(sinks.connection).snapshot("", "t")):
        read()
        with pytest.raises(SettingsError, match=refused):
            sinks.run()
        with pytest.raises(SettingsError, match=refused):
            sinks.run(checkpoint=str(third), prefix=f"third-{sinks.prefix}")
    assert sinks.ledger().checkpoint_ids(sinks.prefix) == runs, "a start that is refused ends no other run"
    finish(sinks, two, b"2", batch=2, directory=copy)
    sinks.expect(b"0", b"1", b"2", pending=0)


def test_a_copy_of_what_was_taken_over_may_write_to_a_sink_of_its_own(sinks):
    finish(sinks, sinks.run(), b"0", batch=0)
    copy, other = sinks.directory / "copy", f"other-{sinks.prefix}"
    shutil.copytree(sinks.checkpoint, copy)
    two = sinks.run(prefix=other)
    make_topics(sinks.connection, other, partitions=1)
    fork = sinks.run(checkpoint=str(copy), prefix=f"third-{sinks.prefix}", sink=other)
    finish(sinks, fork, b"1", batch=1, directory=copy)
    finish(sinks, two, b"1", batch=1)
    assert read_committed(sinks.connection, other) == Counter([b"1"])
    sinks.expect(b"0", b"1", pending=0)


@pytest.mark.parametrize("settings", ["old", "new"])
def test_a_takeover_that_dies_before_the_directory_says_so_is_finished(sinks, monkeypatch, settings):
    first = sinks.run()
    finish(sinks, first, b"0", batch=0)

    def die(*_: object) -> None:
        raise Stopped

    def end_and_die(*arguments: Any) -> None:
        end(*arguments)
        monkeypatch.setattr(CheckpointDirectory, "replace", die)

    end = Adoption._end_old_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(Adoption, "_end_old_checkpoint", end_and_die)
        with pytest.raises(Stopped):
            sinks.run(prefix=f"other-{sinks.prefix}")
    monkeypatch.undo()
    later = sinks.run(**({"prefix": f"other-{sinks.prefix}"} if settings == "new" else {}))
    assert later.options.checkpoint_id != first.options.checkpoint_id
    finish(sinks, later, b"1", batch=1)
    sinks.expect(b"0", b"1", pending=0)


def test_of_two_that_take_over_at_once_one_goes_on(sinks, monkeypatch):
    finish(sinks, sinks.run(), b"a", batch=0)
    winners = []
    before(
        monkeypatch, CheckpointDirectory, "replace", lambda: winners.append(sinks.run(prefix=f"second-{sinks.prefix}"))
    )
    with pytest.raises(SettingsError, match=r"another pipeline took over checkpoint directory .* at the same moment"):
        sinks.run(prefix=f"first-{sinks.prefix}")
    finish(sinks, winners[0], b"b", batch=1)
    finish(sinks, sinks.run(prefix=f"second-{sinks.prefix}"), b"c", batch=2)
    sinks.expect(b"a", b"b", b"c", pending=0)


def test_an_earlier_pipeline_that_restarts_meanwhile_keeps_its_directory(sinks, monkeypatch):
    finish(sinks, sinks.run(), b"a", batch=0)
    checkpoint_id = json.loads((sinks.checkpoint / FILE).read_text())["checkpoint_id"]
    before(monkeypatch, Adoption, "replace_identity", sinks.run)
    with pytest.raises(SettingsError, match=f"of prefix '{sinks.prefix}' was started on .* at the same moment"):
        sinks.run(prefix=f"other-{sinks.prefix}")
    assert json.loads((sinks.checkpoint / FILE).read_text())["checkpoint_id"] == checkpoint_id
    finish(sinks, sinks.run(), b"b", batch=1)
    sinks.expect(b"a", b"b", pending=0)


def test_a_takeover_leaves_what_a_run_opened_that_started_meanwhile(sinks, monkeypatch):
    finish(sinks, sinks.run(), b"a", batch=0)
    restarted = []

    def restart() -> None:
        run = sinks.run()
        restarted.append((run, run.slot(0, b"b", batch=1)))

    before(monkeypatch, Sweep, "of_checkpoint", restart)
    with pytest.raises(SettingsError, match=r"was started on .* at the same moment"):
        sinks.run(prefix=f"other-{sinks.prefix}")
    ((run, message),) = restarted
    run.commit(message, batch=1)
    sinks.expect(b"a", b"b", pending=0)


def test_an_earlier_pipeline_that_restarts_too_late_ends(sinks, monkeypatch):
    """It has read the directory and looked into the log before its checkpoint id is over, and starts its run after."""
    finish(sinks, sinks.run(), b"a", batch=0)
    others = []
    before(monkeypatch, DecisionLog, "start_run", lambda: others.append(sinks.run(prefix=f"other-{sinks.prefix}")))
    with pytest.raises(SettingsError, match=r"another pipeline was started on .* at the same moment: that one goes on"):
        sinks.run()
    finish(sinks, others[0], b"b", batch=1)
    sinks.expect(b"a", b"b", pending=0)


def test_a_run_whose_checkpoint_id_was_replaced_meanwhile_ends(sinks, monkeypatch):
    """On an object store two first starts can each write a checkpoint id: the second write stays."""
    before(monkeypatch, DecisionLog, "start_run", lambda: rewrite(sinks.checkpoint / FILE))
    with pytest.raises(SettingsError, match="another pipeline was started on checkpoint directory"):
        sinks.run()


def rewrite(file: Path) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | {"checkpoint_id": "another"}))
