"""What indoubt keeps in a Spark checkpoint directory: the life of the query, and what it writes to."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from lifecycle.errors import CheckpointUnwritable, SettingsError

FILE = "indoubt.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Identity of a checkpoint directory: made with it and kept in it, so a new directory is a new life."""

    life: str
    prefix: str
    sink: str
    decisions: str = ""
    """Topic of the decision log; empty in a directory that was made before this was kept."""


def open_checkpoint(directory: str, prefix: str, sink: str, decisions: str) -> tuple[Life, bool]:
    """Return (the directory's life, whether it is new), made on the first start.

    Raises CheckpointUnwritable, and SettingsError when the file is not ours.
    """
    file = Path(directory) / FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        probe = file.with_name(f".{FILE}.{os.getpid()}")
        probe.write_text("")
        probe.unlink()
        if file.exists():
            return _read(file), False
        life = Life(life=uuid4().hex, prefix=prefix, sink=sink, decisions=decisions)
        write(directory, life)
    except OSError as error:
        raise CheckpointUnwritable(
            f"checkpoint directory {directory} cannot be written ({error.strerror}): nothing was started; "
            "make it writable for this user, or give another one with --checkpoint"
        ) from error
    return life, True


def write(directory: str, life: Life) -> None:
    """Replace the life file at once: a crash leaves the old one or the new one."""
    file = Path(directory) / FILE
    draft = file.with_name(f".{FILE}.{os.getpid()}")
    with draft.open("w") as out:
        json.dump(asdict(life), out)
        out.flush()
        os.fsync(out.fileno())
    draft.rename(file)


def _read(file: Path) -> Life:
    try:
        fields = json.loads(file.read_text())
        return Life(
            life=str(fields["life"]),
            prefix=str(fields["prefix"]),
            sink=str(fields["sink"]),
            decisions=str(fields.get("decisions", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{file} is not an indoubt life file ({error}): without it nobody knows which transactions belong to this "
            "checkpoint; restore it from a backup, or start with a new checkpoint directory"
        ) from None


def has_unfinished_batch(directory: str) -> bool:
    """Say whether Spark will replay a batch: the newest file in offsets/ has no file in commits/."""
    planned = _newest(Path(directory) / "offsets")
    return planned is not None and planned != _newest(Path(directory) / "commits")


def _newest(folder: Path) -> int | None:
    numbers = [int(file.name) for file in folder.glob("*") if file.name.isdigit()]
    return max(numbers, default=None)
