"""Settings of the app: checked at start, one line that names the variable; the token in no text."""

from __future__ import annotations

import pytest

from app.__main__ import main
from app.settings import COLLECTOR_CA, COLLECTOR_URL, TOKEN, TOKEN_FILE, TROUBLE_URL, Settings
from lifecycle.errors import SettingsError


def test_the_defaults_need_a_token_only():
    settings = Settings.from_environment({TOKEN: "secret-word"})
    assert settings.collector_url == "http://127.0.0.1:8650"
    assert settings.trouble_url is None
    assert settings.token() == "secret-word"


def test_the_token_is_not_in_the_text_of_the_settings():
    assert "secret-word" not in repr(Settings.from_environment({TOKEN: "secret-word"}))


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, TOKEN),
        ({TOKEN: "  "}, TOKEN),
        ({TOKEN: "x", COLLECTOR_URL: "localhost:8650"}, COLLECTOR_URL),
        ({TOKEN: "x", COLLECTOR_URL: "file:///etc/passwd"}, COLLECTOR_URL),
        ({TOKEN: "x", COLLECTOR_URL: "http://me:pass@host"}, COLLECTOR_URL),
        ({TOKEN: "x", TROUBLE_URL: "nowhere"}, TROUBLE_URL),
        ({TOKEN: "x", COLLECTOR_CA: "/none.pem"}, "INDOUBT_COLLECTOR_CA /none.pem cannot be used"),
        ({TOKEN: "x", COLLECTOR_CA: __file__}, COLLECTOR_CA),
    ],
)
def test_a_wrong_setting_is_named(environment, named):
    with pytest.raises(SettingsError, match=named):
        Settings.from_environment(environment)


def test_an_address_with_a_password_is_refused_without_saying_the_password():
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment({TOKEN: "x", COLLECTOR_URL: "http://me:hidden@host"})
    assert "hidden" not in str(raised.value)


def test_an_empty_or_missing_token_file_is_named(tmp_path):
    empty = tmp_path / "token"
    empty.write_text("\n")
    for file in (empty, tmp_path / "none"):
        with pytest.raises(SettingsError, match=TOKEN_FILE):
            Settings.from_environment({TOKEN_FILE: str(file)}).token()


def test_the_program_ends_with_2_and_one_line_when_a_setting_is_wrong(monkeypatch, capsys):
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.delenv(TOKEN_FILE, raising=False)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert TOKEN in capsys.readouterr().err
