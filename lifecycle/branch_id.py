"""Names of transaction branches in databases: one per task attempt, parsed whole, written as xid or as gid."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from indoubt.lifecycle.errors import SettingsError

XA_FORMAT_ID = 1
XA_PART_BYTES = 64
"""What X/Open's XID gives to gtrid and to bqual each."""
NUMBER_DIGITS = 12
"""Room that is kept for the digits of a batch, and as many for an attempt."""
XA_PREFIX_BYTES = XA_PART_BYTES - 2 * (NUMBER_DIGITS + 1)

_NUMBER = rf"(?:0|[1-9]\d{{0,{NUMBER_DIGITS - 1}}})"
_PATTERN = re.compile(
    rf"(?P<prefix>[A-Za-z0-9._-]{{1,80}}):(?P<batch>{_NUMBER}):(?P<attempt>{_NUMBER})"
    rf":(?P<slot>{_NUMBER}):(?P<nonce>[0-9a-f]{{8}})",
    re.ASCII,
)


def check_xa_prefix(prefix: str) -> str:
    """Return ``prefix`` when it leaves room for batch and attempt in an XA gtrid of 64 bytes. Raises SettingsError."""
    length = len(prefix.encode())
    if length > XA_PREFIX_BYTES:
        raise SettingsError(
            f"prefix {prefix!r} has {length} bytes; with a MySQL or MariaDB sink it takes at most {XA_PREFIX_BYTES}, because "
            f"an xid's gtrid of {XA_PART_BYTES} bytes also holds batch and attempt: choose a shorter one"
        )
    return prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchId:
    """A database's branch ``prefix:batch:attempt:slot:nonce``.

    The nonce (8 hex digits) is the task attempt's own: a task that is tried again must not collide with its earlier try.
    """

    prefix: str
    batch: int
    attempt: int
    slot: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.gtrid}:{self.bqual}"

    @property
    def gtrid(self) -> str:
        """Return the global part of the xid: prefix, batch, attempt."""
        return f"{self.prefix}:{self.batch}:{self.attempt}"

    @property
    def bqual(self) -> str:
        """Return the branch part of the xid: slot and nonce."""
        return f"{self.slot}:{self.nonce}"

    @classmethod
    def new(cls, *, prefix: str, batch: int, attempt: int, slot: int) -> BranchId:
        """Return an id that no other task attempt has."""
        return cls(prefix=prefix, batch=batch, attempt=attempt, slot=slot, nonce=secrets.token_hex(4))

    @classmethod
    def parse(cls, text: str) -> BranchId | None:
        """Return the parsed id, or None for one that is not ours. Parsed whole: ``word`` never matches ``word_count``."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            return None
        return cls(
            prefix=match["prefix"],
            batch=int(match["batch"]),
            attempt=int(match["attempt"]),
            slot=int(match["slot"]),
            nonce=match["nonce"],
        )

    @classmethod
    def from_xid(cls, format_id: int, gtrid: bytes, bqual: bytes) -> BranchId | None:
        """Return the id that an XA xid spells, or None when it is not ours (another format, another shape, other bytes)."""
        if format_id != XA_FORMAT_ID:
            return None
        try:
            found = cls.parse(f"{gtrid.decode('ascii')}:{bqual.decode('ascii')}")
        except UnicodeDecodeError:
            return None
        return found if found is not None and found.gtrid.encode() == gtrid else None

    def same_task(self, other: BranchId) -> bool:
        """True when both were written for the same slot, batch and attempt: they differ in the task attempt only."""
        return self.gtrid == other.gtrid and self.slot == other.slot

    def is_superseded_by(self, mine: BranchId) -> bool:
        """True when no decision can list this branch any more, now that ``mine`` begins: it may be rolled back.

        Of an older attempt, in whatever slot: recovery settled what was decided before ``mine``'s attempt began, and later
        decisions of older attempts are void. Of the same attempt and slot: an older batch (Spark goes on only when a batch
        is committed whole), or an earlier try of the same task.
        """
        if self.prefix != mine.prefix or self == mine:
            return False
        if self.attempt != mine.attempt:
            return self.attempt < mine.attempt
        return self.slot == mine.slot and self.batch <= mine.batch
