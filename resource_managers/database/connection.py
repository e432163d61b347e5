"""How to reach a database: one value that travels to the tasks, is hashable, and never shows its password."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import DATABASES, kind_named
from indoubt.lifecycle.text_files import key_values

TLS_MODES = ("off", "require", "verify")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseConnection:
    """Server, user and database of one resource manager.

    ``tls``: ``off``, ``require`` (encrypted, whoever answers) or ``verify`` (the server's certificate and name are checked
    with ``tls_ca``, a file; empty = the system's authorities).
    """

    kind: str
    host: str
    user: str
    database: str
    password: str = field(default="", repr=False)
    port: int = 0
    tls: str = "off"
    tls_ca: str = ""

    def __post_init__(self) -> None:
        kind = kind_named(self.kind, f"connection to {self.host}", DATABASES)
        for name in ("host", "user", "database"):
            if not getattr(self, name):
                raise SettingsError(f"{self.kind}.{name} is empty: the database properties must name it")
        if self.tls not in TLS_MODES:
            raise SettingsError(f"{self.kind}.tls is {self.tls!r}; it takes one of: {', '.join(TLS_MODES)}")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"{self.kind}.port is {self.port}; it takes 1 to 65535")
        if self.port == 0:
            object.__setattr__(self, "port", kind.default_port)

    @property
    def address(self) -> str:
        """Return where it is, for people: ``mysql at 127.0.0.1:3306, database shop``."""
        return f"{self.kind} at {self.host}:{self.port}, database {self.database}"

    def to_json(self) -> str:
        """Return it as text: it travels as a Spark option (password included: never log it)."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DatabaseConnection:
        """Return the connection that ``to_json`` wrote."""
        return cls(**json.loads(text))


def read_database_properties(file: Path, environment: Mapping[str, str] = os.environ) -> dict[str, DatabaseConnection]:
    """Return the connections of a file with lines ``mysql.host=..``, ``postgres.user=..`` (``#`` comments), by kind.

    The password variable of its kind (``INDOUBT_MYSQL_PASSWORD``) wins over the file. Raises SettingsError naming file and line.
    """
    found: dict[str, dict[str, Any]] = {}
    for where, name, value in key_values(file, "database properties file"):
        kind, _, part = name.partition(".")
        found.setdefault(kind, {})[part] = _typed(where, kind, part, value)
    for kind, properties in found.items():
        password = environment.get(DATABASES[kind].password_variable)
        if password is not None:
            properties["password"] = password
        for needed in ("host", "user", "database"):
            if not properties.get(needed):
                raise SettingsError(f"{file}: {kind}.{needed} is missing")
    return {kind: DatabaseConnection(kind=kind, **properties) for kind, properties in found.items()}


def _typed(where: str, kind: str, part: str, value: str) -> str | int:
    parts = [known.name for known in fields(DatabaseConnection) if known.name != "kind"]
    if kind not in DATABASES or part not in parts:
        known = ", ".join(f"{name}.*" for name in DATABASES)
        raise SettingsError(
            f"{where}: property {f'{kind}.{part}' if part else kind!r} is unknown; "
            f"known are {known} with: {', '.join(parts)}"
        )
    if part != "port":
        return value
    if not value.isdigit():
        raise SettingsError(f"{where}: {kind}.port is {value!r}; it takes a number")
    return int(value)
