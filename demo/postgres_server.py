"""A real PostgreSQL server from Debian's package, on loopback, in a directory of its own, never run as root."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql

from demo.database_server import DATABASE, USER, DatabaseFailed, DatabaseServer
from demo.prerequisites import find_postgres

RUN_AS = ("postgres", "nobody")
"""PostgreSQL refuses to run as root. As root, the first of these users that exists runs it."""


class PostgresServer(DatabaseServer):
    """PostgreSQL with max_prepared_transactions = 2000. ``settings`` are settings of postgresql.conf by name.

    If root starts it and the server's user cannot reach ``directory``, the data is in a temporary directory instead, which
    is removed at the end of the context.
    """

    kind = "postgres"
    administrator_name = "postgres"
    administrator_database = "postgres"
    client_error = psycopg.Error
    stop_signal = signal.SIGINT

    def __init__(self, directory: Path, port: int | None = None, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory, port, settings)
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self._elsewhere: Path | None = None

    @property
    def data(self) -> Path:
        """Return the server's data directory."""
        return (self._elsewhere or self.directory) / "data"

    def _make_data(self) -> None:
        if self._user is not None and self._elsewhere is None and not _reachable(self.directory, self._user):
            self._elsewhere = Path(tempfile.mkdtemp(prefix="indoubt-postgres-"))
            self._elsewhere.chmod(0o755)
        if (self.data / "PG_VERSION").exists():
            return
        self.data.mkdir(mode=0o700, exist_ok=True)
        password_file = self.data.parent / "first-password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._password(self.administrator_name))
        if self._user is not None:
            os.chown(self.data, self._user.pw_uid, self._user.pw_gid)
            os.chown(password_file, self._user.pw_uid, self._user.pw_gid)
        command = [self._program("initdb"), "--pgdata", str(self.data), "--username", self.administrator_name]
        command += ["--pwfile", str(password_file), "--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale"]
        try:
            self._make(command, **self._as_whom())
        finally:
            password_file.unlink()

    def _command(self) -> Sequence[str]:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "max_prepared_transactions": "2000",
            "shared_buffers": "64MB",
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._program("postgres"), "-D", str(self.data), *options]

    def _set_up(self) -> None:
        with self._connect() as connection:
            if connection.execute("select from pg_roles where rolname = %s", [USER]).fetchone() is None:
                password = sql.Literal(self._password(USER))
                connection.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(USER), password))
            if connection.execute("select from pg_database where datname = %s", [DATABASE]).fetchone() is None:
                names = sql.Identifier(DATABASE), sql.Identifier(USER)
                connection.execute(sql.SQL("create database {} owner {}").format(*names))

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(dbname=self.administrator_database, **self._login())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._elsewhere is not None:
            shutil.rmtree(self._elsewhere, ignore_errors=True)

    def _as_whom(self) -> dict[str, Any]:
        if self._user is None:
            return {"cwd": "/"}
        return {"cwd": "/", "user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}

    @staticmethod
    def _program(name: str) -> str:
        programs = find_postgres()
        if programs is None:
            raise DatabaseFailed("PostgreSQL is not installed: run 'make setup-tests', or install postgresql")
        return str(programs / name)


def _unprivileged() -> pwd.struct_passwd:
    for name in RUN_AS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise DatabaseFailed(
        f"PostgreSQL does not run as root: make a user {' or '.join(RUN_AS)}, or start this as another user than root"
    )


def _reachable(directory: Path, user: pwd.struct_passwd) -> bool:
    done = subprocess.run(
        ["test", "-x", str(directory)], user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/", timeout=30
    )
    return done.returncode == 0
