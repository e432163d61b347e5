"""What an earlier run left in a database that the sink lacks by now: an undecided branch keeps its rows locked for ever."""

from __future__ import annotations

import re

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.runtime.crash_points import CrashPoint
from tests.integration.protocol_run import ProtocolSinks, Stopped, protocol_sinks, stop_at

pytestmark = pytest.mark.integration
SERVERS = {"mysql": "mariadb", "postgres": "postgres"}
TOLD = "which no setting says how to reach"


@pytest.fixture(params=SERVERS)
def database(request) -> str:
    return request.param


@pytest.fixture
def sinks(request, database, connection, tmp_path) -> ProtocolSinks:
    server = request.getfixturevalue(SERVERS[database])
    return protocol_sinks(connection, tmp_path, [server], ["kafka", database])


def without_database(sinks: ProtocolSinks) -> dict[str, str]:
    """Return the settings of a pipeline that was given a new directory and the topic alone."""
    return {"checkpoint": f"{sinks.checkpoint}-new", "sink": sinks.sinks.topic}


def test_an_undecided_branch_outside_the_new_sink_is_rolled_back(sinks, database):
    sinks.run().slot(0, b"undecided")
    later = sinks.run(**without_database(sinks))
    assert later.recovered.rolled_back == 2
    assert sinks.pending() == 0


def test_a_database_out_of_reach_is_reported_until_it_was_polled(sinks, database, caplog):
    sinks.run().slot(0, b"undecided")
    for _ in range(2):
        caplog.clear()
        sinks.run(**without_database(sinks), database_properties="")
        assert f"wrote to {database}, {TOLD}" in caplog.text
        assert (sinks.sinks.prepared(database), sinks.open_ids()) == (1, [])
    caplog.clear()
    sinks.run(**without_database(sinks))
    assert sinks.pending() == 0
    sinks.run(**without_database(sinks), database_properties="")
    assert TOLD not in caplog.text


def test_a_database_that_is_away_does_not_stop_a_sink_without_it(sinks, database, caplog, tmp_path):
    sinks.run().slot(0, b"undecided")
    away = tmp_path / "away.properties"
    away.touch(mode=0o600)
    away.write_text(re.sub(r"\.port=\d+", ".port=1", sinks.sinks.properties_file.read_text()))
    later = sinks.run(**without_database(sinks), database_properties=away)
    assert f"{database}, which is not in the sink, cannot be asked what {sinks.prefix!r} left there" in caplog.text
    later.commit(later.slot(0, b"a"))
    assert later.recovery.sweep_unused(later.options.attempt) == 0
    assert caplog.text.count("cannot be asked") == 1, "a database that stays away is told once"
    assert sinks.sinks.in_topic()[b"a"] == 1


def test_a_decided_branch_out_of_reach_stops_the_start(sinks, database, monkeypatch):
    run = sinks.run()
    message = run.slot(0, b"decided")
    stop_at(monkeypatch, CrashPoint.AFTER_DECISION)
    with pytest.raises(Stopped):
        run.commit(message)
    with pytest.raises(SettingsError, match=f"no setting says how to reach '{database}'"):
        sinks.run(**without_database(sinks), database_properties="")
    sinks.run(**without_database(sinks))
    sinks.expect(b"decided", pending=0)
