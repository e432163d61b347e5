"""What a running ``watch`` leaves for commands, and how they find it: while it runs, of the same user, and for its own address."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.program import session
from indoubt.program.session import Session, completed, left, running

HERE, ELSEWHERE = "http://127.0.0.1:8650", "http://127.0.0.1:9650"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path / "state")}


def test_a_command_finds_what_a_running_watch_left(environment: dict[str, str]) -> None:
    with left(Session(collector=HERE, token="of-watch"), environment) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.parent == Path(environment["XDG_RUNTIME_DIR"]) / "indoubt"
        found = completed(environment)
        assert (found["INDOUBT_COLLECTOR_URL"], found["INDOUBT_TOKEN"]) == (HERE, "of-watch")
    assert not path.exists()
    assert completed(environment) == environment


def test_without_a_runtime_directory_it_is_left_with_the_state(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for runtime in ({}, {"XDG_RUNTIME_DIR": str(tmp_path / "file")}):
        given = {"XDG_STATE_HOME": environment["XDG_STATE_HOME"], **runtime}
        with left(Session(collector=HERE, token="t"), given) as path:
            assert path.parent == tmp_path / "state" / "indoubt"
            assert completed({**environment, **given})["INDOUBT_TOKEN"] == "t", (
                "a shell with such a directory finds it, too"
            )


def test_where_nothing_can_be_written_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SettingsError, match="no directory for the token"),
        left(Session(collector=HERE, token="t"), {"XDG_STATE_HOME": str(tmp_path / "file")}),
    ):
        pass


def test_the_token_goes_to_its_own_collector_only(environment: dict[str, str]) -> None:
    with left(Session(collector=HERE, token="of-watch"), environment):
        assert completed({**environment, "INDOUBT_COLLECTOR_URL": f"{HERE}/"})["INDOUBT_TOKEN"] == "of-watch"
        other = {**environment, "INDOUBT_COLLECTOR_URL": ELSEWHERE}
        assert completed(other) == other


@pytest.mark.parametrize("name", ["INDOUBT_TOKEN", "INDOUBT_TOKEN_FILE"])
def test_a_token_that_was_given_stays(environment: dict[str, str], name: str) -> None:
    given = {**environment, name: "mine"}
    with left(Session(collector=HERE, token="of-watch"), environment):
        found = completed(given)
        assert found == {**given, "INDOUBT_COLLECTOR_URL": HERE}
        both = {**given, "INDOUBT_COLLECTOR_URL": HERE}
        assert completed(both) == both


def leave(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, pid: int, address: str, stack: ExitStack
) -> Path:
    monkeypatch.setattr(session.os, "getpid", lambda: pid)
    return stack.enter_context(left(Session(collector=address, token=f"of-{pid}"), environment))


def test_of_several_the_one_that_the_address_names_is_meant(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        leave(environment, monkeypatch, 1, HERE, stack)
        leave(environment, monkeypatch, 2, ELSEWHERE, stack)
        with pytest.raises(SettingsError, match=f"set INDOUBT_COLLECTOR_URL to one of {HERE}, {ELSEWHERE}"):
            completed(environment)
        assert completed({**environment, "INDOUBT_COLLECTOR_URL": ELSEWHERE})["INDOUBT_TOKEN"] == "of-2"


def test_what_a_killed_watch_left_counts_no_more_and_the_next_removes_it(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with left(Session(collector=HERE, token="of-watch"), environment) as path:
        kept = path.read_text()
    path.write_text(kept)
    path.chmod(0o600)
    assert running(environment) == []
    with ExitStack() as stack:
        new = leave(environment, monkeypatch, os.getpid() + 1, ELSEWHERE, stack)
        assert [file.name for file in new.parent.iterdir()] == [new.name]


def test_a_file_that_others_may_read_or_that_is_no_session_does_not_count(environment: dict[str, str]) -> None:
    with left(Session(collector=HERE, token="of-watch"), environment) as path:
        path.chmod(0o644)
        assert running(environment) == []
        path.chmod(0o600)
        for text in ("", "[]", '{"collector": "x"}'):
            path.write_text(text)
            assert running(environment) == []


def test_a_file_of_another_user_does_not_count(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with left(Session(collector=HERE, token="of-watch"), environment):
        monkeypatch.setattr(session.os, "getuid", lambda: 4_242)
        assert running(environment) == []


def test_a_watch_of_another_machine_with_the_same_home_does_not_count(environment: dict[str, str]) -> None:
    with left(Session(collector=HERE, token="of-watch", machine="another"), environment):
        assert running(environment) == []


def test_the_token_is_in_no_repr() -> None:
    assert "secret" not in repr(Session(collector=HERE, token="secret"))


def test_of_several_clusters_a_command_says_which(environment: dict[str, str]) -> None:
    with ExitStack() as stack:
        for name, url in (("eu", HERE), ("us", ELSEWHERE)):
            stack.enter_context(left(Session(collector=url, token=f"of-{name}", cluster=name), environment))
        with pytest.raises(SettingsError, match="give --cluster with one of eu, us"):
            completed(environment)
        found = completed(environment, "us")
        assert (found["INDOUBT_COLLECTOR_URL"], found["INDOUBT_TOKEN"]) == (ELSEWHERE, "of-us")
        with pytest.raises(SettingsError, match="no cluster 'ap' is watched from here, but eu, us"):
            completed(environment, "ap")
        with pytest.raises(SettingsError, match="no cluster 'us' is watched from here, but eu"):
            completed({**environment, "INDOUBT_COLLECTOR_URL": HERE}, "us")
