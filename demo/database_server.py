"""The common part of the demo's database servers: a process with its own data, port and log, on loopback."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from demo.ports import free_port, listens
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.database.connection import DatabaseConnection

START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
CHECK_EVERY_S = 0.05
USER = DATABASE = "indoubt"


class DatabaseFailed(Exception):
    """A database server did not start or stop; the message has the end of its log."""


class DatabaseServer(ABC):
    """A server: start, stop, kill, and start again on the same data. By default it takes a free port.

    ``connection`` is an ordinary user with a database of its own; ``administrator`` has every right. Both have a random
    password, which is stored in the directory and readable only by its owner.
    """

    kind = ""
    administrator_name = ""
    administrator_database = ""

    def __init__(self, directory: Path, port: int | None = None, settings: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.port = port or free_port()
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None

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
    def _answers(self) -> bool:
        """Return whether the server accepts the administrator's statements."""

    @property
    def connection(self) -> DatabaseConnection:
        """Return the connection of an ordinary user."""
        return self._as(USER, DATABASE)

    @property
    def administrator(self) -> DatabaseConnection:
        """Return the connection of the administrator."""
        return self._as(self.administrator_name, self.administrator_database)

    @property
    def pid(self) -> int | None:
        """Return the process id, or None while it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

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
        self._process = self._spawn(self._command())
        deadline = time.monotonic() + START_LIMIT_S
        while not (listens(self.port) and self._answers()):
            if self._process.poll() is not None:
                raise DatabaseFailed(
                    f"the {self.kind} server ended with code {self._process.returncode}; the end of {self.log_file}:\n"
                    f"{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                self.kill()
                raise DatabaseFailed(
                    f"the {self.kind} server did not answer on port {self.port} in {START_LIMIT_S:.0f} s; the end of "
                    f"{self.log_file}:\n{self.log_tail()}"
                )
            time.sleep(CHECK_EVERY_S)
        self._set_up()
        return self

    def stop(self) -> None:
        """End it in order, after 30 s by SIGKILL; safe to call twice."""
        if self.pid is None or self._process is None:
            return
        self._process.send_signal(self._stop_signal)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it and its child processes by SIGKILL, as a power cut would, and wait until they are gone."""
        if self._process is None or self._process.poll() is not None:
            return
        family = [self._process.pid, *_children(self._process.pid)]
        for pid in family:
            _kill(pid)
        self._process.wait(STOP_LIMIT_S)
        deadline = time.monotonic() + STOP_LIMIT_S
        while any(_is_running(pid) for pid in family):
            if time.monotonic() > deadline:
                raise DatabaseFailed(f"processes {family} of the killed {self.kind} server still run: end them by hand")
            time.sleep(CHECK_EVERY_S)

    def restart(self, settings: dict[str, str] | None = None) -> None:
        """Stop in order and start on the same data and port, with other settings if given."""
        self.stop()
        self._settings = self._settings if settings is None else settings
        self.start()

    def log_tail(self, lines: int = 15) -> str:
        """Return the last lines of the server's log."""
        if not self.log_file.exists():
            return "(no log)"
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    _stop_signal = signal.SIGTERM

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

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


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    # A zombie has ended; its parent has not read its exit code yet.
    return state not in ("Z", "X")
