"""What is the same sink, the same directory and the same topic: each goes by what it is, not by name, path or inode."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.checkpoints.checkpoint_directory import FILE
from tests.integration.pipeline_process import make_topics, wait_until
from tests.integration.protocol_run import ProtocolSinks, finish, protocol_sinks, superseded

pytestmark = pytest.mark.integration


@pytest.fixture
def sinks(connection, tmp_path) -> ProtocolSinks:
    return protocol_sinks(connection, tmp_path, [], ["kafka"])


def on_host(path: Path, wanted: Path, other: Path) -> None:
    """Let the path hold one host's directory, and keep what is there as the other host's."""
    if path.exists():
        path.rename(other)
    wanted.rename(path)


def test_a_copy_at_the_same_path_of_another_host_leaves_the_original(sinks):
    path, mine, copied = sinks.checkpoint, sinks.directory / "mine", sinks.directory / "copied"
    one = sinks.run()
    finish(sinks, one, b"0", batch=0)
    shutil.copytree(path, copied)
    other = f"other-{sinks.prefix}"
    make_topics(sinks.connection, other, partitions=1)
    on_host(path, copied, mine)
    finish(sinks, sinks.run(prefix=other, sink=other), b"1", batch=1)
    on_host(path, mine, copied)
    finish(sinks, one, b"1", batch=1)
    finish(sinks, sinks.run(), b"2", batch=2)
    sinks.expect(b"0", b"1", b"2", pending=0)


def test_a_directory_does_not_go_back_to_a_sink_that_it_left(sinks):
    """Its original may write there, and what was written elsewhere would be missing."""
    finish(sinks, sinks.run(), b"0", batch=0)
    backup, other = sinks.directory / "backup", f"other-{sinks.prefix}"
    shutil.copytree(sinks.checkpoint, backup)
    make_topics(sinks.connection, other, partitions=1)
    finish(sinks, sinks.run(prefix=other, sink=other), b"1", batch=1)
    for changes in ({}, {"prefix": f"third-{sinks.prefix}"}):
        with pytest.raises(SettingsError, match=f"wrote to this kafka sink before, with prefix '{sinks.prefix}'"):
            sinks.run(**changes)
    again = sinks.run(checkpoint=str(backup))
    finish(sinks, again, b"1", batch=1, directory=backup)
    sinks.expect(b"0", b"1", pending=0)


def test_a_copy_made_before_a_takeover_does_not_finish_it(sinks):
    """Nor does the copy tell itself from the directory by its path."""
    finish(sinks, sinks.run(), b"0", batch=0)
    path, mine, copied = sinks.checkpoint, sinks.directory / "mine", sinks.directory / "copied"
    shutil.copytree(path, copied)
    two = sinks.run(prefix=f"other-{sinks.prefix}")
    on_host(path, copied, mine)
    with pytest.raises(SettingsError, match="is a copy, or the original, of one that was taken over"):
        sinks.run()
    on_host(path, mine, copied)
    finish(sinks, two, b"1", batch=1)
    sinks.expect(b"0", b"1", pending=0)


@pytest.fixture(params=["mariadb", "postgres"])
def table(request, connection, tmp_path) -> ProtocolSinks:
    server = request.getfixturevalue(request.param)
    return protocol_sinks(connection, tmp_path, [server], [server.kind])


def test_a_table_under_another_name_is_the_same_sink(table):
    one = table.run()
    finish(table, one, b"0", batch=0)
    copy, (kind,) = table.directory / "copy", table.names
    shutil.copytree(table.checkpoint, copy)
    qualified = {"mysql": table.sinks.databases[kind].connection.database, "postgres": "public"}[kind]
    spelled = f"{kind}:{qualified}.{table.sinks.table}"
    assert table.run(sink=spelled).options.checkpoint_id == one.options.checkpoint_id, "it goes on"
    one = table.run()
    two = table.run(checkpoint=str(copy), prefix=f"other-{table.prefix}", sink=spelled)
    superseded(one, b"1", batch=1)
    finish(table, two, b"1", batch=1, directory=copy)
    table.expect(b"0", b"1", pending=0)


def make_again(sinks: ProtocolSinks, topic: str) -> None:
    """Delete a topic and make it under its name."""
    admin = AdminClient(sinks.connection.for_librdkafka())
    admin.delete_topics([topic])[topic].result(30)
    wait_until(f"{topic} is gone", lambda: topic not in admin.list_topics(timeout=30).topics)
    make_topics(sinks.connection, topic, partitions=1)
    wait_until(f"{topic} is there", lambda: topic in admin.list_topics(timeout=30).topics)


def test_a_sink_topic_that_was_made_again_is_refused(sinks):
    first = sinks.run()
    finish(sinks, first, b"0", batch=0)
    first.recovery.require_unchanged({})
    make_again(sinks, sinks.sinks.topic)
    refused = r"topic of sink .* is another one than before .*remove \"kafka\" from \"sinks\""
    with pytest.raises(SettingsError, match=refused):
        first.recovery.require_unchanged({})
    with pytest.raises(SettingsError, match=refused):
        sinks.run()
    file = sinks.checkpoint / FILE
    kept = json.loads(file.read_text())
    del kept["sinks"]["kafka"]
    file.write_text(json.dumps(kept))
    finish(sinks, sinks.run(), b"1", batch=1)
    sinks.expect(b"1", pending=0)


def test_a_source_topic_that_was_made_again_is_refused(sinks):
    def sources() -> dict[str, list[str]]:
        return {topic: [id_] for topic, id_ in sinks.connection.topic_ids([sinks.sinks.source]).items()}

    first = sinks.recovery()
    first.recover(sources=sources())
    first.require_unchanged(sources())
    make_again(sinks, sinks.sinks.source)
    refused = r"source topic .* is another one than before .*remove .* from \"sources\""
    with pytest.raises(SettingsError, match=refused):
        first.require_unchanged(sources())
    runs = sinks.ledger().checkpoint_ids(sinks.prefix)
    for changes in ({}, {"prefix": f"other-{sinks.prefix}"}):
        with pytest.raises(SettingsError, match=refused):
            sinks.recovery(**changes).recover(sources=sources())
    assert sinks.ledger().checkpoint_ids(sinks.prefix) == runs, "a start that is refused ends no other run"
    file = sinks.checkpoint / FILE
    kept = json.loads(file.read_text())
    del kept["sources"][sinks.sinks.source]
    file.write_text(json.dumps(kept))
    sinks.recovery().recover(sources=sources())


def test_a_run_ends_whose_directory_was_given_to_another_pipeline(sinks):
    first = sinks.run()
    finish(sinks, first, b"0", batch=0)
    other = f"other-{sinks.prefix}"
    make_topics(sinks.connection, other, partitions=1)
    sinks.run(prefix=other, sink=other)
    with pytest.raises(SettingsError, match=r"was given to another pipeline, or replaced"):
        first.recovery.require_unchanged({})
