"""Settings of the app: checked at start, one line that names the variable; the token in no text."""

from __future__ import annotations

import os
import ssl
from ipaddress import ip_network
from pathlib import Path

import pytest

from indoubt.app import server
from indoubt.app.__main__ import command_line, main
from indoubt.app.settings import (
    COLLECTOR_CA,
    COLLECTOR_URL,
    FAULT_INJECTION_URL,
    LOOK_ONLY,
    TOKEN,
    TOKEN_FILE,
    Settings,
)
from indoubt.app.sign_in.settings import CLIENT_SECRET
from indoubt.lifecycle.errors import SettingsError
from tests.unit.settings_page import documented

ROOT = Path(__file__).parents[3]


def test_the_defaults_need_a_token_only():
    settings = Settings.from_environment({TOKEN: "secret-word"})
    assert settings.collector_url == "http://127.0.0.1:8650"
    assert settings.fault_injection_url is None
    assert settings.token() == "secret-word"


def test_a_collector_without_tls_is_asked_without_reading_the_authorities():
    context = Settings.from_environment({TOKEN: "x", COLLECTOR_URL: "http://127.0.0.1:8650"}).tls()
    assert context.cert_store_stats()["x509_ca"] == 0
    assert context.verify_mode is ssl.CERT_REQUIRED
    context = Settings.from_environment({TOKEN: "x", COLLECTOR_URL: "https://collector.example"}).tls()
    assert context.cert_store_stats()["x509_ca"] > 0


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
        ({TOKEN: "x", FAULT_INJECTION_URL: "nowhere"}, FAULT_INJECTION_URL),
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


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "ops.example"])
def test_listening_beyond_loopback_wants_a_sign_in_in_front(monkeypatch, capsys, host):
    monkeypatch.setenv(TOKEN, "x" * 32)
    with pytest.raises(SystemExit) as ended:
        main(["--host", host])
    assert ended.value.code == 2
    assert f"--host {host} lets every client" in capsys.readouterr().err
    served = []
    monkeypatch.setattr(server, "serve", lambda *given: served.append(given))
    main(["--host", host, "--sign-in-by-proxy", "--allowed-host", "ops.example"])
    main(["--host", "127.0.0.1"])
    assert served == [(host, 8651, ["ops.example"], None, ""), ("127.0.0.1", 8651, [], None, "")]
    monkeypatch.setenv(LOOK_ONLY, "")  # set, so that it is put back
    main(["--host", host, "--look-only"])
    assert served[-1] == (host, 8651, [], None, "")
    assert Settings.from_environment().look_only
    main(["--host", host, "--trusted-proxy", "10.0.0.1", "--operator-group", "oncall"])
    assert served[-1][3].way.networks == (ip_network("10.0.0.1"),)


@pytest.mark.parametrize(("text", "looks_only"), [("", False), ("false", False), ("true", True)])
def test_look_only_takes_true_or_false(text, looks_only):
    assert Settings.from_environment({TOKEN: "x", LOOK_ONLY: text}).look_only is looks_only


@pytest.mark.parametrize("text", ["1", "no", "False"])
def test_look_only_takes_nothing_else(text):
    with pytest.raises(SettingsError, match=f"{LOOK_ONLY} is '{text}'; it takes true or false"):
        Settings.from_environment({TOKEN: "x", LOOK_ONLY: text})


def test_a_file_sets_what_flags_leave_open(monkeypatch, tmp_path):
    monkeypatch.setenv(TOKEN, "x" * 32)
    monkeypatch.setenv(COLLECTOR_URL, "")  # set, so that it is put back
    file = tmp_path / "indoubt.toml"
    file.write_text('[app]\ncollector = "http://127.0.0.1:7000"\nport = 9000\nallowed_host = ["ops.example"]')
    served = []
    monkeypatch.setattr(server, "serve", lambda *given: served.append(given))
    main(["--settings-file", str(file), "--port", "9001"])
    assert served == [("127.0.0.1", 9001, ["ops.example"], None, "")]
    assert os.environ[COLLECTOR_URL] == "http://127.0.0.1:7000"
    monkeypatch.setenv(COLLECTOR_URL, "http://127.0.0.1:1")
    main(["--settings-file", str(file)])
    assert os.environ[COLLECTOR_URL] == "http://127.0.0.1:1"


def test_the_variable_wins_over_the_file_also_where_it_says_false(monkeypatch, tmp_path):
    monkeypatch.setenv(TOKEN, "x" * 32)
    file = tmp_path / "indoubt.toml"
    file.write_text("[app]\nlook_only = true")
    monkeypatch.setattr(server, "serve", lambda *given: None)
    for text, looks_only in (("false", False), ("", True)):
        monkeypatch.setenv(LOOK_ONLY, text)
        main(["--settings-file", str(file)])
        assert Settings.from_environment().look_only is looks_only


def test_an_unknown_key_of_the_file_is_named(tmp_path, capsys):
    file = tmp_path / "indoubt.toml"
    file.write_text("[app]\nports = 9000")
    with pytest.raises(SystemExit):
        main(["--settings-file", str(file)])
    assert f"app.ports in {file} is not a setting of the app" in capsys.readouterr().err


OIDC = ["--oidc-issuer", "https://login.example", "--oidc-client-id", "indoubt"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--trusted-proxy", "10.0.0.1", *OIDC, "--viewer-group", "*"], "two ways to sign in"),
        (["--trusted-proxy", "proxy", "--viewer-group", "*"], "--trusted-proxy is 'proxy'"),
        (OIDC, "nobody may do anything"),
        (["--operator-group", "oncall"], "--operator-group needs a sign-in"),
        (["--oidc-client-id", "indoubt"], "--oidc-client-id needs a sign-in"),
        ([*OIDC[:2], "--viewer-group", "*"], "--oidc-client-id is missing"),
        ([*OIDC, "--oidc-issuer", "http://login.example", "--viewer-group", "*"], "must start with https://"),
        ([*OIDC, "--oidc-scopes", "email", "--viewer-group", "*"], "must hold 'openid'"),
        ([*OIDC, "--oidc-client-secret-file", "/none", "--viewer-group", "*"], "/none cannot be read"),
        ([*OIDC, "--session-hours", "0", "--viewer-group", "*"], "--session-hours is 0"),
        ([*OIDC, "--public-url", "https://ops.example/indoubt", "--viewer-group", "*"], "without a path"),
        ([*OIDC, "--host", "0.0.0.0", "--viewer-group", "*"], "in clear"),
    ],
)
def test_a_wrong_setting_of_the_sign_in_is_named(monkeypatch, capsys, arguments, says):
    monkeypatch.setenv(TOKEN, "x" * 32)
    with pytest.raises(SystemExit):
        main(arguments)
    assert says in capsys.readouterr().err


def test_the_secret_of_the_client_is_shown_by_no_text(monkeypatch):
    monkeypatch.setenv(TOKEN, "x" * 32)
    monkeypatch.setenv(CLIENT_SECRET, "hidden-word")
    served = []
    monkeypatch.setattr(server, "serve", lambda *given: served.append(given))
    main([*OIDC, "--viewer-group", "*", "--public-url", "https://ops.example/", "--host", "0.0.0.0"])
    sign_in = served[0][3]
    assert sign_in.way.client_secret == "hidden-word"
    assert sign_in.public_url == "https://ops.example"
    assert "hidden-word" not in repr(sign_in)


def test_every_option_of_the_app_has_its_line_and_no_line_is_left_over():
    lines = {name for name in documented("app") if name.startswith("--")}
    options = {name for action in command_line()._actions for name in action.option_strings if name.startswith("--")}
    assert lines == options - {"--help", "--version", "--settings-file"}
