"""``--flink-properties``: read at start; what is wrong is named by file and key, and no secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.collector.config import settings
from indoubt.collector.config.flink_access import KEYS, read_flink_access
from indoubt.lifecycle.errors import SettingsError

HTTPS, HTTP = "https://flink:8081", "http://flink:8081"
LOGIN = "username=anna\npassword=hunter2\n"


def read(directory: Path, text: str, url: str = HTTPS) -> str:
    file = directory / "eu.properties"
    file.write_text(text)
    return repr(read_flink_access([f"eu={file}"], {"eu": url}))


@pytest.mark.parametrize(
    ("text", "url", "says"),
    [
        ("nonsense\n", HTTPS, "line 1: not key=value"),
        ("# c\n\nuser=anna\n", HTTPS, "line 3: property 'user' is unknown; known are: ca.location"),
        ("username=anna\n", HTTPS, "password is missing; username needs it"),
        ("password=hunter2\n", HTTPS, "username is missing; password needs it"),
        ("certificate.location=/c.pem\n", HTTPS, "key.location is missing; certificate.location needs it"),
        ("key.location=/k.pem\n", HTTPS, "certificate.location is missing; key.location needs it"),
        ("key.password=hunter2\n", HTTPS, "key.location is missing; key.password needs it"),
        (LOGIN + "bearer.token=hunter3\n", HTTPS, "username and bearer.token exclude each other"),
        (LOGIN + "password=hunter3\n", HTTPS, "line 3: password is given twice"),
        ("bearer.token=\n", HTTPS, "line 1: bearer.token is empty"),
        ("bearer.token=hunter\u00fc\n", HTTPS, "line 1: bearer.token is empty, or has characters"),
        ("ca.location=/nowhere.pem\n", HTTPS, "ca.location cannot be used (No such file or directory)"),
        ("certificate.location=/c\nkey.location=/k\n", HTTPS, "certificate.location cannot be used (No such file"),
        (LOGIN, HTTP, "username would be sent in clear"),
        ("ca.location=/ca.pem\n", HTTP, "ca.location needs an address with https://"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_key(tmp_path: Path, text: str, url: str, says: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(tmp_path, text, url)
    assert says in str(refused.value)
    assert "eu.properties" in str(refused.value)
    assert "hunter" not in str(refused.value)


def test_a_file_that_holds_no_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("hunter2")
    with pytest.raises(SettingsError, match=r"eu\.properties: ca\.location cannot be used .*it takes a PEM file"):
        read(tmp_path, f"ca.location={tmp_path / 'x.pem'}\n")
    files = f"certificate.location={tmp_path / 'x.pem'}\nkey.location={tmp_path / 'x.pem'}\n"
    with pytest.raises(SettingsError, match=r"certificate\.location or key\.location cannot be used"):
        read(tmp_path, files)


def test_nothing_secret_is_shown(tmp_path: Path) -> None:
    assert "hunter" not in read(tmp_path, LOGIN)
    assert "hunter" not in read(tmp_path, LOGIN, "http://127.0.0.1:8081")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["eu"], "--flink-properties eu takes NAME=FILE"),
        (["us=FILE"], "--flink-properties us names no cluster: give --flink us=URL too"),
        (["eu=FILE", "eu=FILE"], "--flink-properties eu is given twice"),
        (["eu=/nowhere"], "/nowhere cannot be read: No such file"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, given: list[str], says: str) -> None:
    file = tmp_path / "eu.properties"
    file.write_text(LOGIN)
    with pytest.raises(SettingsError) as refused:
        read_flink_access([text.replace("FILE", str(file)) for text in given], {"eu": HTTPS})
    assert says in str(refused.value)


def test_the_settings_file_names_it_like_the_command_line(tmp_path: Path) -> None:
    properties = tmp_path / "eu.properties"
    properties.write_text(LOGIN)
    file = tmp_path / "indoubt.toml"
    tables = f'[collector.flink]\neu = "{HTTPS}"\n[collector.flink_properties]\neu = "{properties}"\n'
    file.write_text(f'[collector]\nbootstrap_servers = "a:1"\ndirectory = "d"\n{tables}')
    read = settings.read(["--settings-file", str(file)], {})
    assert list(read.flink_access) == ["eu"]
    assert "hunter" not in repr(read)


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parents[4] / "docs" / "settings.md").read_text()
    assert [key for key in KEYS if f"`{key}`" not in page] == []
