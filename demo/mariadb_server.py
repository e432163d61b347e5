"""A real MariaDB server from Debian's package, on loopback, in a directory of its own."""

from __future__ import annotations

import getpass
import shutil
from collections.abc import Sequence
from pathlib import Path

import pymysql

from demo.database_server import DATABASE, USER, DatabaseFailed, DatabaseServer
from demo.prerequisites import MARIADB_PACKAGES, find_mariadb


class MariaDbServer(DatabaseServer):
    """MariaDB as one process. ``settings`` are mariadbd options by name, without dashes."""

    kind = "mysql"
    administrator_name = "root"
    administrator_database = "mysql"
    client_error = pymysql.MySQLError

    @property
    def data(self) -> Path:
        """Return the server's data directory."""
        return self.directory / "data"

    @property
    def temporary(self) -> Path:
        """Return where the server keeps temporary tables: one that starts deletes all that it finds there, of other servers too."""
        return self.directory / "tmp"

    def _make_data(self) -> None:
        self.temporary.mkdir(parents=True, exist_ok=True)
        if (self.data / "mysql").exists():
            return
        tool = shutil.which("mariadb-install-db")
        if tool is None:
            raise DatabaseFailed(_not_installed())
        command = [tool, "--no-defaults", f"--datadir={self.data}", f"--tmpdir={self.temporary}"]
        command += [f"--user={getpass.getuser()}", "--skip-test-db"]
        self._make([*command, "--auth-root-authentication-method=normal"])

    def _command(self) -> Sequence[str]:
        server = find_mariadb()
        if server is None:
            raise DatabaseFailed(_not_installed())
        options = {
            "datadir": str(self.data),
            "tmpdir": str(self.temporary),
            "user": getpass.getuser(),
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            # Relative to the data directory, because a socket's path has at most 107 bytes.
            "socket": "s.sock",
            "pid-file": str(self.directory / "mariadb.pid"),
            "max-connections": "300",
            "innodb-buffer-pool-size": "128M",
            "skip-name-resolve": "1",
            # Keys that differ only in case or accents are different keys for the job, so they need different rows.
            "character-set-server": "utf8mb4",
            "collation-server": "utf8mb4_bin",
            "init-file": str(self._first_statements()),
            **self._settings,
        }
        return [server, "--no-defaults", *(f"--{name}={value}" for name, value in options.items())]

    def _first_statements(self) -> Path:
        # In a private file, because every user of the machine can read a command line.
        file = self.directory / "first.sql"
        file.touch(mode=0o600)
        password = pymysql.converters.escape_string(self._password(self.administrator_name))
        accounts = ("root@localhost", "root@'127.0.0.1'")
        file.write_text("".join(f"alter user if exists {who} identified by '{password}';\n" for who in accounts))
        return file

    def _set_up(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"create database if not exists {DATABASE}")
            cursor.execute(f"create user if not exists {USER} identified by %s", [self._password(USER)])
            cursor.execute(f"grant all on {DATABASE}.* to {USER}")

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(database=self.administrator_database, **self._login())


def _not_installed() -> str:
    return f"MariaDB is not installed: run 'make setup-tests', or install {' and '.join(MARIADB_PACKAGES)}"
