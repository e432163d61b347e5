"""TLS to both databases: encrypted with whoever answers, or only with the server that the given authority vouches for."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.database_server import DatabaseServer
from demo.mariadb_server import MariaDbServer
from demo.postgres_server import PostgresServer
from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.database.session import DatabaseSession
from indoubt.resource_managers.mysql.session import MySqlSession
from indoubt.resource_managers.postgres.session import PostgresSession
from tests.integration.certificates import make_authority

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with ca.pem, other-ca.pem, and cert.pem and key.pem for 127.0.0.1 signed by the first."""
    return make_authority(Path(tmp_path_factory.mktemp("tls")))


@pytest.fixture(scope="module", params=["mysql", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory, authority: Path) -> Iterator[DatabaseServer]:
    directory = Path(tmp_path_factory.mktemp(request.param))
    if request.param == "mysql":
        settings = {"ssl-cert": f"{authority}/cert.pem", "ssl-key": f"{authority}/key.pem"}
        with MariaDbServer(directory, settings=settings) as running:
            yield running
        return
    with PostgresServer(directory) as running:
        for name in ("cert.pem", "key.pem"):
            target = running.data / name
            target.write_bytes((authority / name).read_bytes())
            target.chmod(0o600)
            owner = running.data.stat()
            os.chown(target, owner.st_uid, owner.st_gid)
        running.restart({"ssl": "on", "ssl_cert_file": "cert.pem", "ssl_key_file": "key.pem"})
        yield running


def session(server: DatabaseServer, **tls: str) -> DatabaseSession:
    connection = dataclasses.replace(server.connection, **tls)
    if server.kind == "mysql":
        return MySqlSession(connection, lock_timeout_s=1)
    return PostgresSession(connection, lock_timeout_s=1)


def is_encrypted(open_: DatabaseSession) -> bool:
    if open_.kind == "mysql":
        return bool(open_.query("show session status like 'Ssl_cipher'")[0][1])
    return bool(open_.query("select ssl from pg_stat_ssl where pid = pg_backend_pid()")[0][0])


def test_off_is_not_encrypted_and_require_is(server):
    with session(server) as plain, session(server, tls="require") as encrypted:
        assert (is_encrypted(plain), is_encrypted(encrypted)) == (False, True)


def test_verify_takes_the_server_that_the_authority_vouches_for(server, authority):
    with session(server, tls="verify", tls_ca=f"{authority}/ca.pem") as open_:
        assert is_encrypted(open_)


@pytest.mark.parametrize("change", [{"tls_ca": "other-ca.pem"}, {"host": "localhost", "tls_ca": "ca.pem"}], ids=str)
def test_verify_refuses_another_authority_and_another_name(server, authority, change):
    options = {**change, "tls_ca": f"{authority}/{change['tls_ca']}"}
    with pytest.raises(SettingsError, match=r"(?i)certificate.*: check .*tls_ca"):
        session(server, tls="verify", **options)


def test_an_authority_file_that_is_not_there(server):
    with pytest.raises(SettingsError, match=r"nowhere\.pem"):
        session(server, tls="verify", tls_ca="/nowhere.pem")
