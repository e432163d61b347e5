"""Settings that an editor saved in another way: read where that changes nothing, else refused with file and line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indoubt.app.settings import TOKEN_FILE, Settings
from indoubt.app.sign_in.settings import _client_secret
from indoubt.collector.config import flink_access, standing_orders
from indoubt.collector.serve.cli.client import Client
from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.text_files import text_of
from indoubt.resource_managers.database.connection import read_database_properties
from indoubt.resource_managers.kafka.connection import KafkaConnection

READERS: dict[str, Callable[[Path], object]] = {
    "Kafka's properties": KafkaConnection.from_properties_file,
    "a database's properties": read_database_properties,
    "Flink's properties": lambda file: flink_access._properties(str(file)),
    "settings": lambda file: settings_file._tables(str(file)),
    "standing orders": lambda file: standing_orders._table(str(file)),
    "the app's token": lambda file: Settings.from_environment({TOKEN_FILE: str(file)}).token(),
    "the command line's token": lambda file: Client.from_environment({TOKEN_FILE: str(file)}),
    "the client's secret": lambda file: _client_secret(file, {}),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_no_utf8_is_refused_with_its_line(reader: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes("# one\n# two: M\xfcller\n".encode("latin-1"))
    with pytest.raises(SettingsError, match=rf"{file}, line 2 is no UTF-8 text: save the file as UTF-8"):
        READERS[reader](file)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_not_there_is_refused_with_its_name(reader: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"{tmp_path / 'none'} cannot be read: No such file"):
        READERS[reader](tmp_path / "none")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbfbootstrap.servers=broker:9092\r\n")
    assert text_of(file, "a file") == "bootstrap.servers=broker:9092\r\n"
    assert KafkaConnection.from_properties_file(file).bootstrap_servers == "broker:9092"
    file.write_bytes(b"\xef\xbb\xbf[collector]\r\nport = 1\r\n")
    assert settings_file._tables(str(file)) == {"collector": {"port": 1}}
