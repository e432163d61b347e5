"""The common part of the demo's database servers."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from demo.ports import free_port, listens
from demo.server import Server, ServerFailed
from indoubt.resource_managers.database.connection import DatabaseConnection

START_LIMIT_S = 60.0
USER = DATABASE = "indoubt"


class DatabaseFailed(ServerFailed):
    """A database server did not start or stop; the message has the end of its log."""


class DatabaseServer(Server):
    """A server. By default it takes a free port.

    ``connection`` is an ordinary user with a database of its own; ``administrator`` has every right. Both have a random
    password, which is stored in the directory and readable only by its owner.
    """

    failure = DatabaseFailed
    kind = ""
    administrator_name = ""
    administrator_database = ""
    client_error: ClassVar[type[Exception]]

    def __init__(self, directory: Path, port: int | None = None, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory)
        self.port = port or free_port()
        self.what = f"{self.kind} server on port {self.port}"
        self._settings = settings or {}

    @abstractmethod
    def _make_data(self) -> None:
        """Make the data directory if it is new. Raises DatabaseFailed."""

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Return the server's command line; it contains no secret."""

    @abstractmethod
    def _set_up(self) -> None:
        """Make user and database in a running server, unless they exist."""

    @abstractmethod
    def _connect(self) -> Any:
        """Return a connection of the administrator. Raises ``client_error``."""

    def _answers(self) -> bool:
        if not listens(self.port):
            return False
        try:
            self._connect().close()
        except self.client_error:
            return False
        return True

    def _login(self) -> dict[str, Any]:
        """Return what both clients take for a connection of the administrator."""
        as_ = self.administrator
        where = {"host": as_.host, "port": as_.port, "user": as_.user, "password": as_.password}
        return {**where, "connect_timeout": 5, "autocommit": True}

    def _make(self, command: Sequence[str], **more: Any) -> None:
        """Run what makes the data, with ``more`` for the process. Raises DatabaseFailed."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_LIMIT_S, **more)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()[-600:]
            raise DatabaseFailed(f"{Path(command[0]).name} could not make {self.directory}: {said}")

    def _as_whom(self) -> dict[str, Any]:
        """Return what Popen takes for the server's process alone."""
        return {}

    @property
    def connection(self) -> DatabaseConnection:
        """Return the connection of an ordinary user."""
        return self._as(USER, DATABASE)

    @property
    def administrator(self) -> DatabaseConnection:
        """Return the connection of the administrator."""
        return self._as(self.administrator_name, self.administrator_database)

    @property
    def log_file(self) -> Path:
        """Return the server's log file."""
        return self.directory / f"{self.kind}.log"

    def start(self) -> Self:
        """Make the data if the directory is new, start, and wait until the server answers. Raises DatabaseFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if listens(self.port):
            raise DatabaseFailed(
                f"port {self.port} is in use: choose another port, or end the program that listens on it"
            )
        self._make_data()
        self._run(self._command(), **self._as_whom())
        self._set_up()
        return self

    def restart(self, settings: dict[str, str] | None = None) -> None:
        """Stop in order and start on the same data and port, with other settings if given."""
        self.stop()
        self._settings = self._settings if settings is None else settings
        self.start()

    def _as(self, user: str, database: str) -> DatabaseConnection:
        return DatabaseConnection(
            kind=self.kind,
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=self._password(user),
            database=database,
        )

    def _password(self, user: str) -> str:
        file = self.directory / "passwords.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        if user not in known:
            known[user] = secrets.token_urlsafe(18)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
                json.dump(known, out)
        return str(known[user])
