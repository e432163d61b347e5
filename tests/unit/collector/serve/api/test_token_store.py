"""Tokens: kept as hashes, shown once, revoked without a restart, compared whole."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest

from indoubt.collector.config.tokens import Tokens
from indoubt.collector.serve.api.auth import token_store
from indoubt.collector.serve.api.auth.authentication import KnownTokens
from indoubt.collector.serve.api.auth.token_store import FILE_NAME, KnownToken
from indoubt.collector.serve.cli import tokens as token_command
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Role


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def role_of(directory: Path, token: str, at_ms: int = 0) -> Role | None:
    caller = KnownTokens.of_file(directory / FILE_NAME).caller_of(f"Bearer {token}", at_ms)
    return caller.role if caller else None


def test_tokens_are_made_once_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    known, files = token_store.read_or_make(directory)
    assert {path.name for path in files} == {"operator.token", "viewer.token"}
    assert {mode(path) for path in (*files, directory / FILE_NAME)} == {0o600}
    clear = {path.stem: path.read_text().strip() for path in files}
    assert all(len(token) >= 32 for token in clear.values())
    assert role_of(directory, clear["operator"]) is Role.OPERATOR
    assert role_of(directory, clear["viewer"]) is Role.VIEWER
    assert token_store.read_or_make(directory) == (known, ())
    assert sorted(path.name for path in directory.iterdir()) == ["operator.token", "tokens.json", "viewer.token"]


def test_tokens_json_holds_no_token_and_equal_tokens_have_different_hashes(tmp_path: Path) -> None:
    token = token_store.add(tmp_path, "anna", Role.OPERATOR)
    assert token not in (tmp_path / FILE_NAME).read_text()
    first, second = (KnownToken.of("anna", Role.OPERATOR, token) for _ in range(2))
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "mend or delete"),
        ("[]", "mend or delete"),
        (json.dumps({"operator": {}}), "mend or delete"),
        (json.dumps({"operator": {"anna": "secret-secret"}, "viewer": {}}), "mend or delete"),
        (json.dumps({"version": 2, "tokens": []}), "version 2"),
        (json.dumps({"version": 1, "tokens": [{"name": "anna"}]}), "mend or delete"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_no_token_is_said(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(SettingsError, match=says) as raised:
        token_store.read_or_make(tmp_path)
    assert "tokens.json" in str(raised.value)
    assert "secret-secret" not in str(raised.value)


def test_add_list_and_revoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = ["--directory", str(tmp_path)]
    assert token_command.main(["add", "carla", "--role", "operator", "--days", "30", *directory]) == 0
    token = capsys.readouterr().out.strip()
    assert len(token) >= 32
    now_ms = time.time_ns() // 1_000_000
    assert role_of(tmp_path, token, now_ms) is Role.OPERATOR
    assert role_of(tmp_path, token, now_ms + 31 * 86_400_000) is None, "it has ended"

    assert token_command.main(["list", *directory]) == 0
    listed = capsys.readouterr().out
    (row,) = json.loads(listed)
    assert (row["name"], row["role"], row["expires"][:2]) == ("carla", "operator", "20")
    assert token not in listed

    assert token_command.main(["add", "carla", *directory]) == 2
    assert "'carla' has a token already" in capsys.readouterr().err
    assert token_command.main(["revoke", "nobody", *directory]) == 2
    assert "carla" in capsys.readouterr().err
    assert token_command.main(["revoke", "carla", *directory]) == 0
    assert role_of(tmp_path, token, now_ms) is None


def test_a_token_of_an_app_that_signs_persons_in_is_kept_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = ["--directory", str(tmp_path)]
    assert token_command.main(["add", "pages", "--role", "operator", "--for-persons", *directory]) == 0
    said = capsys.readouterr()
    assert "pages is operator and speaks for persons" in said.err
    caller = KnownTokens.of_file(tmp_path / FILE_NAME).caller_of(f"Bearer {said.out.strip()}", 0)
    assert caller is not None
    assert caller.for_persons
    assert token_command.main(["list", *directory]) == 0
    assert json.loads(capsys.readouterr().out)[0]["for_persons"] is True


def test_a_changed_token_file_is_read_and_a_broken_one_admits_none(tmp_path: Path) -> None:
    known = KnownTokens.of_file(tmp_path / FILE_NAME)
    token_store.read_or_make(tmp_path)
    clear = (tmp_path / "viewer.token").read_text().strip()
    assert known.caller_of(f"Bearer {clear}", 0) is not None
    added = token_store.add(tmp_path, "carla", Role.VIEWER)
    assert known.caller_of(f"Bearer {added}", 0) is not None
    token_store.revoke(tmp_path, "viewer")
    assert known.caller_of(f"Bearer {clear}", 0) is None
    assert not (tmp_path / "viewer.token").exists()
    (tmp_path / FILE_NAME).write_text("{")
    assert known.caller_of(f"Bearer {added}", 0) is None
    (tmp_path / FILE_NAME).unlink()
    assert known.caller_of(f"Bearer {added}", 0) is None


@pytest.mark.parametrize(
    ("header", "role"),
    [
        ("Bearer operator-1", Role.OPERATOR),
        ("bearer viewer-11", Role.VIEWER),
        ("Bearer ", None),
        ("Bearer operator", None),
        ("Bearer operator-11", None),
        ("Basic operator-1", None),
        ("operator-1", None),
        ("Bearer opératör", None),
        ("", None),
    ],
)
def test_who_calls(header: str, role: Role | None) -> None:
    known = KnownTokens.given(Tokens(operators={"anna": "operator-1"}, viewers={"ben": "viewer-11"}))
    caller = known.caller_of(header, 0)
    assert (caller.role if caller else None) is role


def test_a_short_token_is_guessable_and_a_made_one_is_not(tmp_path: Path) -> None:
    known = KnownTokens.given(Tokens(operators={"anna": "operator-1"}, viewers={"ben": "v" * 32}))
    callers = [known.caller_of(f"Bearer {token}", 0) for token in ("operator-1", "v" * 32)]
    assert [caller.is_guessable for caller in callers if caller] == [True, False]


def test_a_known_token_shows_neither_salt_nor_hash(tmp_path: Path) -> None:
    (first, *_), _ = token_store.read_or_make(tmp_path)
    assert first.digest.hex() not in repr(first)
    assert str(first.digest) not in repr(first)
