"""What a running ``watch`` leaves for the commands of its user: address and token of each collector, in files of mode 0600.

``watch`` holds a lock on its file. The system drops the lock with the process, so one that was killed leaves nothing that counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from indoubt.lifecycle.errors import SettingsError

COLLECTOR_URL, TOKEN, TOKEN_FILE = "INDOUBT_COLLECTOR_URL", "INDOUBT_TOKEN", "INDOUBT_TOKEN_FILE"
_PATTERN = "watch-*.json"
_PRIVATE_FILE, _PRIVATE_DIRECTORY = 0o600, 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """How the commands of one user reach a collector."""

    collector: str
    token: str = field(repr=False)
    cluster: str = ""
    machine: str = field(default_factory=socket.gethostname)
    """Its address means that machine, also where several share the user's files."""


def state_directory(environment: Mapping[str, str]) -> Path:
    """Return where indoubt keeps what must outlive a restart of the machine."""
    return Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "indoubt"


@contextlib.contextmanager
def left(session: Session, environment: Mapping[str, str]) -> Iterator[Path]:
    """Leave the session where commands find it, and take it away at the end. Raises SettingsError where that cannot be done."""
    directory = _writable(environment)
    for path in directory.glob(_PATTERN):
        if _held(path) is None:
            path.unlink(missing_ok=True)
    name = f"watch-{os.getpid()}" + (f"-{session.cluster}" if session.cluster else "")
    path, draft = directory / f"{name}.json", directory / f".{name}"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(asdict(session), file)
        file.flush()
        draft.replace(path)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def completed(environment: Mapping[str, str], cluster: str = "") -> Mapping[str, str]:
    """Return the environment of a command, with what it lacks taken from a running ``watch`` of this user.

    The token of a ``watch`` goes to its own collectors only. Raises SettingsError where it is not clear which of several is
    meant, and where none is of the ``cluster`` that is.
    """
    url = environment.get(COLLECTOR_URL, "").rstrip("/")
    has_token = bool(environment.get(TOKEN, "").strip() or environment.get(TOKEN_FILE, "").strip())
    if url and has_token:
        return environment
    known = [each for each in running(environment) if url in ("", each.collector)]
    found = [each for each in known if cluster in ("", each.cluster)]
    names = ", ".join(sorted(each.cluster for each in known if each.cluster))
    if known and not found:
        raise SettingsError(f"no cluster {cluster!r} is watched from here, but {names or 'one without a name'}")
    if len(found) > 1 and len(found) == len({each.cluster for each in found}):
        raise SettingsError(f"several clusters are watched from here: give --cluster with one of {names}")
    if len(found) > 1:
        addresses = ", ".join(sorted(each.collector for each in found))
        raise SettingsError(f"several collectors are watched from here: set {COLLECTOR_URL} to one of {addresses}")
    if not found:
        return environment
    return {**environment, COLLECTOR_URL: found[0].collector, **({} if has_token else {TOKEN: found[0].token})}


def running(environment: Mapping[str, str]) -> list[Session]:
    """Return the sessions of this user's ``watch`` processes that run."""
    paths = (path for directory in _directories(environment) for path in sorted(directory.glob(_PATTERN)))
    return [session for path in paths if (session := _held(path)) is not None]


def _directories(environment: Mapping[str, str]) -> list[Path]:
    runtime = environment.get("XDG_RUNTIME_DIR")
    return [*([Path(runtime) / "indoubt"] if runtime else []), state_directory(environment)]


def _writable(environment: Mapping[str, str]) -> Path:
    directories = _directories(environment)
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.mkdir(_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
            if directory.stat().st_uid == os.getuid() and os.access(directory, os.W_OK):
                return directory
    names = ", ".join(map(str, directories))
    raise SettingsError(f"no directory for the token of this user's commands can be written: {names}")


def _held(path: Path) -> Session | None:
    """Return what a file says whose ``watch`` runs here; None for one that was left, is another user's or open to others."""
    try:
        with path.open() as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o077:
                return None
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = Session(**json.load(file))
                return held if held.machine == socket.gethostname() else None
            return None
    except (OSError, ValueError, TypeError):
        return None
