"""An address that leads to one database server now and to another one later, and what may stand between: a standby, a pooler."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import psycopg

from demo.database_server import DatabaseServer
from demo.ports import free_port
from demo.postgres_server import PostgresServer
from indoubt.lifecycle.child_processes import die_with_parent
from indoubt.resource_managers.database.connection import DatabaseConnection
from tests.integration.kafka_fixtures import wait_until

LIMIT_S = 60.0
_PIECE = 1 << 16


class MovingAddress:
    """A loopback port that passes everything on to a server's port; a context manager."""

    def __init__(self, server: DatabaseServer) -> None:
        self._target = server.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: list[socket.socket] = []

    def lead_to(self, server: DatabaseServer) -> None:
        """Break off every connection; the next ones lead to this server."""
        self._target = server.port
        was, self._open = self._open, []
        for end in was:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> MovingAddress:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._target)) as server:
            self._open += [client, server]
            back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            back.start()
            _pass_on(client, server)
            back.join(LIMIT_S)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Standby(PostgresServer):
    """A hot standby of a running primary, made by pg_basebackup, with the primary's users and passwords."""

    def __init__(self, directory: Path, primary: PostgresServer) -> None:
        super().__init__(directory, settings={"hot_standby": "on"})
        self._primary = primary

    def _make_data(self) -> None:
        self._elsewhere = self._elsewhere or self._primary.data.parent.with_name(
            f"{self._primary.data.parent.name}-standby"
        )
        self._elsewhere.mkdir(exist_ok=True)
        shutil.copy(self._primary.directory / "passwords.json", self.directory / "passwords.json")
        self.data.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(self.data, self._user.pw_uid, self._user.pw_gid)
        as_ = self._primary.administrator
        command = [
            self._program("pg_basebackup"),
            "-h",
            as_.host,
            "-p",
            str(as_.port),
            "-U",
            as_.user,
            "-D",
            str(self.data),
        ]
        done = subprocess.run(
            [*command, "-R", "-X", "stream", "-c", "fast"],
            env={"PGPASSWORD": as_.password, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            **self._as_whom(),
        )
        assert done.returncode == 0, done.stderr

    def _set_up(self) -> None:
        """Do nothing: it has what the primary has."""

    def promote(self) -> None:
        """Let it take over from its primary, and return when it has."""
        with self._connect() as connection:
            assert connection.execute("select pg_promote(true, 60)").fetchone() == (True,)


@contextlib.contextmanager
def pooled(server: PostgresServer, mode: str, size: int = 3) -> Iterator[DatabaseConnection]:
    """Run PgBouncer before a server and yield the connection through it; ``mode``: session or transaction.

    ``size``: of its pool.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "PgBouncer is not installed: run 'make setup-tests'"
    to, port = server.connection, free_port()
    # Not below pytest's directory, which only its owner enters: PgBouncer refuses to run as root.
    home = Path(tempfile.mkdtemp(prefix="indoubt-pgbouncer-"))
    users, settings = home / "users.txt", home / "pgbouncer.ini"
    users.write_text(f'"{to.user}" "{to.password}"\n')
    settings.write_text(
        f"[databases]\n{to.database} = host={to.host} port={to.port} dbname={to.database}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\n"
        f"auth_file = {users}\npool_mode = {mode}\ndefault_pool_size = {size}\nlogfile = {home}/pgbouncer.log\n"
    )
    as_whom = server._as_whom()
    for path in (home, users, settings):
        if "user" in as_whom:
            os.chown(path, as_whom["user"], as_whom["group"])
    process = subprocess.Popen([program, "-q", str(settings)], preexec_fn=die_with_parent, **as_whom)
    through = DatabaseConnection(
        kind="postgres", host="127.0.0.1", port=port, user=to.user, password=to.password, database=to.database
    )
    try:
        wait_until("PgBouncer answers", lambda: _answers(through), LIMIT_S)
        yield through
    finally:
        process.terminate()
        process.wait(LIMIT_S)
        shutil.rmtree(home, ignore_errors=True)


def _answers(connection: DatabaseConnection) -> bool:
    access = {"host": connection.host, "port": connection.port, "user": connection.user, "dbname": connection.database}
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(**access, password=connection.password).close()
        return True
    return False
