"""Names: transactional ids, batches, attempts, and the handle that lets another process finish a transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from indoubt.lifecycle.errors import MalformedRecord, SettingsError

PREFIX_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,80}")
_ID_PATTERN = re.compile(r"(?P<prefix>[A-Za-z0-9._-]{1,80})-(?P<slot>0|[1-9][0-9]{0,8})-(?P<parity>[01])")

_OFFSET_PATTERN = re.compile(r"[0-9]{1,19}")


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` when it can start a transactional id. Raises SettingsError."""
    if not PREFIX_PATTERN.fullmatch(prefix):
        raise SettingsError(
            f"transactional_id_prefix is {prefix!r}; it takes 1 to 80 letters, digits, '.', '_' and '-'"
        )
    return prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalId:
    """A pooled Kafka transactional id ``<prefix>-<slot>-<batch parity>``: two per slot, used in turn."""

    prefix: str
    slot: int
    parity: int

    def __str__(self) -> str:
        return f"{self.prefix}-{self.slot}-{self.parity}"

    @classmethod
    def of(cls, prefix: str, slot: int, batch: int) -> TransactionalId:
        """Return the id that ``slot`` uses for ``batch``."""
        return cls(prefix=prefix, slot=slot, parity=batch % 2)

    @classmethod
    def parse(cls, text: str) -> TransactionalId | None:
        """Return the parsed id, or None for an id that is not ours. Parsed whole: ``word`` never matches ``word_count``."""
        match = _ID_PATTERN.fullmatch(text)
        if match is None:
            return None
        return cls(prefix=match["prefix"], slot=int(match["slot"]), parity=int(match["parity"]))


def marker_group(prefix: str, slot: int) -> str:
    """Return the consumer group whose transactional offset proves what ``slot`` committed last."""
    return f"{prefix}-{slot}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Marker:
    """Proof of a batch inside its own transaction: ordered by (batch, attempt) within one checkpoint id."""

    batch: int
    attempt: int
    checkpoint_id: str

    def metadata(self) -> str:
        """Return the text that is kept beside the offset: checkpoint id and attempt (the offset itself is the batch)."""
        return f"{self.checkpoint_id}:{self.attempt}"

    @classmethod
    def parse(cls, batch: int, metadata: str) -> Marker | None:
        """Return the marker, or None when the metadata was not written by this protocol."""
        # librdkafka sends the metadata with C's closing NUL.
        checkpoint_id, _, attempt = metadata.rstrip("\0").rpartition(":")
        return (
            cls(batch=batch, attempt=int(attempt), checkpoint_id=checkpoint_id)
            if checkpoint_id and _OFFSET_PATTERN.fullmatch(attempt)
            else None
        )

    def covers(self, other: Marker) -> bool:
        """True when this marker proves that ``other`` was committed too: same checkpoint id, (batch, attempt) not lower."""
        return self.checkpoint_id == other.checkpoint_id and (self.batch, self.attempt) >= (other.batch, other.attempt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Row count and an order-independent 64-bit hash: tells which rows a transaction holds, whatever its slot."""

    rows: int
    hash: int

    def __str__(self) -> str:
        return f"{self.rows}:{self.hash:016x}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Return the fingerprint written as ``rows:hash``. Raises MalformedRecord."""
        rows, _, digits = text.partition(":")
        try:
            return cls(rows=int(rows), hash=int(digits, 16))
        except ValueError:
            raise MalformedRecord(f"fingerprint {text!r} is not '<rows>:<hash in hex>'") from None


def transaction_key(
    resource_manager: str, transaction: str, producer_id: int | None = None, producer_epoch: int | None = None
) -> str:
    """Return the text that names one transaction; producer id and epoch are Kafka's and None elsewhere."""
    if producer_id is None:
        return f"{resource_manager}:{transaction}"
    return f"{resource_manager}:{transaction}:{producer_id}:{producer_epoch}"


def transactional_ids(resource_manager: str, keys: Iterable[str]) -> set[str]:
    """Return the transactional ids in those of such texts that are of this resource manager, one whose texts have a producer."""
    parts = (key.partition(":") for key in keys)
    return {rest.rsplit(":", 2)[0] for named, _, rest in parts if named == resource_manager}


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What another process needs to finish a prepared transaction, and what it holds.

    ``transaction`` is the Kafka transactional id, the XA xid or the PostgreSQL gid; ``producer_id`` and ``producer_epoch``
    are Kafka's and None elsewhere. Times are epoch milliseconds by the task's clock; ``timeout_ms`` is the resource
    manager's own limit, counted from the first write, 0 where it has none.
    """

    resource_manager: str
    transaction: str
    producer_id: int | None = None
    producer_epoch: int | None = None
    slot: int
    rows: int
    bytes: int
    fingerprint: str
    opened_at_ms: int
    prepared_at_ms: int
    timeout_ms: int = 0

    @property
    def key(self) -> str:
        """Return the text that names this transaction and no other: transaction, producer id, epoch."""
        return transaction_key(self.resource_manager, self.transaction, self.producer_id, self.producer_epoch)

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values; ``from_json`` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> Handle:
        """Return the handle. Raises MalformedRecord that names the missing or wrong field; unknown fields are ignored."""
        if not isinstance(value, dict):
            raise MalformedRecord(f"a handle is a JSON object, not {type(value).__name__}")
        fields: dict[str, Any] = {}
        for name, kinds in HANDLE_FIELDS.items():
            if name not in value:
                raise MalformedRecord(f"handle has no {name!r}")
            if not isinstance(value[name], kinds) or isinstance(value[name], bool):
                raise MalformedRecord(f"handle field {name!r} is {value[name]!r}")
            fields[name] = value[name]
        return cls(**fields)


_INT_OR_NONE = (int, type(None))
HANDLE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "resource_manager": str,
    "transaction": str,
    "producer_id": _INT_OR_NONE,
    "producer_epoch": _INT_OR_NONE,
    "slot": int,
    "rows": int,
    "bytes": int,
    "fingerprint": str,
    "opened_at_ms": int,
    "prepared_at_ms": int,
    "timeout_ms": int,
}
"""The fields of a handle and their types, in JSON and out of it."""
