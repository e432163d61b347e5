"""The kinds of resource manager, one entry each: all that other packages need to know of one without loading it.

To add one, see docs/contributing.md. Where its code is, an entry only names: nothing is imported from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from indoubt.lifecycle.branch_id import check_xa_prefix
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.identity import check_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManagerKind:
    """One kind, under the ``name`` that handles carry and that settings use."""

    name: str
    implementation: str
    """``module:class`` in resource_managers, whose registry.py loads it when it is needed: each takes a client library with it."""
    commit_sends: str
    """What finishes a prepared transaction: what an order sends, and what one types by hand; empty: no order commits one."""
    abort_sends: str
    listed_in: str
    """Where its server lists prepared transactions."""
    default_port: int = 0
    password_variable: str = ""
    """Environment variable whose password wins over files; empty: not a database, its password is in its own properties."""
    lists_whole_server: bool = False
    """True where one list shows the prepared transactions of all databases on the server."""
    target: str = "TABLE"
    """What a sink of this kind names behind the colon."""
    check_prefix: Callable[[str], str] = check_prefix
    """Returns the prefix when a transaction's name here has room for it. Raises SettingsError."""

    @property
    def takes_commits(self) -> bool:
        """Say whether an order commits what is prepared here; else only its owner does."""
        return bool(self.commit_sends)

    @property
    def is_database(self) -> bool:
        """True for what is reached by host, user and database, and holds tables."""
        return bool(self.password_variable)


KAFKA = ResourceManagerKind(
    name="kafka",
    implementation="kafka.resource_manager:KafkaResourceManager",
    commit_sends="EndTxn(commit)",
    abort_sends="EndTxn(abort)",
    listed_in="the coordinators' transactions",
    default_port=9092,
    target="TOPIC",
)
MYSQL = ResourceManagerKind(
    name="mysql",
    implementation="mysql.resource_manager:MySqlResourceManager",
    commit_sends="XA COMMIT",
    abort_sends="XA ROLLBACK",
    listed_in="XA RECOVER",
    default_port=3306,
    password_variable="INDOUBT_MYSQL_PASSWORD",
    lists_whole_server=True,
    check_prefix=check_xa_prefix,
)
"""MySQL and MariaDB."""
POSTGRES = ResourceManagerKind(
    name="postgres",
    implementation="postgres.resource_manager:PostgresResourceManager",
    commit_sends="COMMIT PREPARED",
    abort_sends="ROLLBACK PREPARED",
    listed_in="pg_prepared_xacts",
    default_port=5432,
    password_variable="INDOUBT_POSTGRES_PASSWORD",
)
FILES = ResourceManagerKind(
    name="files",
    implementation="files.resource_manager:FilesResourceManager",
    commit_sends="rename of the hidden files",
    abort_sends="removal of the hidden files",
    listed_in="_indoubt/branches",
    target="DIRECTORY",
)
"""Parquet or JSON lines below a directory on this machine, in S3, or wherever pyarrow.fs reaches."""

KINDS = {kind.name: kind for kind in (KAFKA, MYSQL, POSTGRES, FILES)}
DATABASES = {name: kind for name, kind in KINDS.items() if kind.is_database}

FILE_SINK = ResourceManagerKind(
    name="file_sink",
    implementation="",
    commit_sends="rename of the hidden file, or completion of its upload",
    abort_sends="removal of the hidden file, or abort of its upload",
    listed_in="the store",
    default_port=0,
)
"""Files of Flink's FileSink."""
ICEBERG = ResourceManagerKind(
    name="iceberg",
    implementation="",
    commit_sends="a snapshot that adds the commit's files",
    abort_sends="",
    listed_in="the table",
)
"""Commits of Flink's sink to Iceberg tables. None is taken back: a restored job would miss its files."""
PAIMON = ResourceManagerKind(
    name="paimon",
    implementation="",
    commit_sends="",
    abort_sends="",
    listed_in="the table",
)
"""Commits of Flink's sink to Paimon tables. No order ends one: a job that is restored from a checkpoint adds what it lists."""
FLINK_SINKS = {kind.name: kind for kind in (FILE_SINK, ICEBERG, PAIMON)}
"""What only checkpoints of Flink list: watched, and ended by orders; no pipeline of ours writes to it."""
WATCHED = {**KINDS, **FLINK_SINKS}


def kind_named(name: str, where: str, among: Iterable[str] = KINDS) -> ResourceManagerKind:
    """Return the kind of this name. Raises SettingsError that says the name, ``where`` it stood and which kinds there are."""
    known = tuple(among)
    if name not in known:
        raise SettingsError(f"{where}: resource manager {name!r} is unknown; known are: {', '.join(known)}")
    return KINDS[name]
