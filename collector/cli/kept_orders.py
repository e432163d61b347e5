"""Orders in parts that have no whole answer yet, kept on this machine: the same command goes on with just what was shown."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STATE_HOME = "XDG_STATE_HOME"
KEPT_S = 86_400.0
"""What is older is not gone on with: the preview that it rests on is of yesterday."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some of the transactions of an order, and what was typed for them."""

    keys: Sequence[str]
    confirm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedOrder:
    """An order by filter that takes several requests: what its preview showed, and what was typed."""

    action: str
    filter: Mapping[str, Any]
    fingerprint: str
    reason: str
    idempotency_key: str
    seen: Mapping[str, str]
    """The revision of each key."""
    parts: Sequence[Part]
    not_confirmed: int
    """Transactions that the filter means too, for which another text must be typed: they are in no part."""

    @property
    def transactions(self) -> int:
        """Return how many are ordered."""
        return sum(len(part.keys) for part in self.parts)

    def key_of(self, number: int) -> str:
        """Return the idempotency key of a part, the first one being 1."""
        return part_key(self.idempotency_key, number)

    def body(self, number: int, *, dry_run: bool) -> dict[str, Any]:
        """Return the request for a part; it is the same whenever it is sent, so that its key gets its first answer."""
        part = self.parts[number - 1]
        body = {
            "action": self.action,
            "keys": list(part.keys),
            "seen": {key: self.seen[key] for key in part.keys},
            "each": True,
            "reason": f"{self.reason} (part {number} of {len(self.parts)} of an order by filter)",
            "dry_run": dry_run,
            "confirm": part.confirm,
        }
        return body if dry_run else body | {"idempotency_key": self.key_of(number)}


def part_key(idempotency_key: str, number: int) -> str:
    """Return the idempotency key of a part of the order with this one."""
    return f"{idempotency_key}-part-{number}"


class KeptOrders:
    """Those that were given to one collector from this machine, a file each."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory, self._url = directory, url

    @classmethod
    def of(cls, url: str, environment: Mapping[str, str] = os.environ) -> KeptOrders:
        """Return the orders of this collector, where programs keep such things (``XDG_STATE_HOME``)."""
        home = environment.get(STATE_HOME) or Path.home() / ".local" / "state"
        return cls(Path(home) / "indoubt" / "orders", url)

    def keep(self, order: PartedOrder) -> None:
        """Write an order down before its first part is sent. Raises OSError."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file in self._directory.glob("*.json"):
            if not _is_fresh(file):
                file.unlink(missing_ok=True)
        file = self._file(order.idempotency_key)
        written = file.with_suffix(".new")
        written.touch(mode=0o600)
        written.write_text(json.dumps(asdict(order)), encoding="utf-8")
        written.replace(file)

    def find(self, idempotency_key: str) -> PartedOrder | None:
        """Return the order with this key whose end was not seen, None: there is none, or it is too old."""
        file = self._file(idempotency_key)
        try:
            if not _is_fresh(file):
                return None
            value = json.loads(file.read_text(encoding="utf-8"))
            return PartedOrder(**value | {"parts": [Part(**part) for part in value["parts"]]})
        except (OSError, ValueError, TypeError, KeyError):
            # Whatever it was, it is no order of this release: it is given as if it were not there.
            return None

    def forget(self, order: PartedOrder) -> None:
        """Remove an order that has all its answers."""
        # One that stays does no harm: its parts have their answers.
        with contextlib.suppress(OSError):
            self._file(order.idempotency_key).unlink()

    def _file(self, idempotency_key: str) -> Path:
        name = hashlib.sha256(f"{self._url} {idempotency_key}".encode()).hexdigest()[:32]
        return self._directory / f"{name}.json"


def _is_fresh(file: Path) -> bool:
    return time.time() - file.stat().st_mtime < KEPT_S
