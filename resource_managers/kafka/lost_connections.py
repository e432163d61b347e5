"""Why connections to brokers were lost: the clients tell it beside the request that fails, whose own error is a time-out."""

from __future__ import annotations

import re
import time

from confluent_kafka import KafkaError

_FRESH_S = 30.0
"""So long a reason stands for a request that fails: clients try again each second."""
_SAID = re.compile(
    r"(?:\w+://)?(?P<address>\S+)/(?P<node>bootstrap|-?\d+): (?P<what>.*?)(?: \(after \d+ms in state \w+\))?"
)


class LostConnections:
    """Remembers the newest reason. For many threads; ``note`` is an ``error_cb`` of librdkafka."""

    def __init__(self) -> None:
        self._last = ("", 0.0)

    def note(self, error: KafkaError) -> None:
        """Remember what librdkafka says of one broker; what it says of all of them at once has no reason in it."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            return
        said = _SAID.fullmatch(error.str())
        if said is None:
            self._remember(error.str())
        else:
            is_name = error.code() == KafkaError._RESOLVE
            self.note_broker(said["node"], said["address"], said["what"], is_unresolved=is_name)

    def note_broker(self, node: str, address: str, what: str, *, is_unresolved: bool) -> None:
        """Remember why one broker was lost. ``node``: its id, where it is known by what it advertises."""
        if not is_unresolved:
            self._remember(f"{address}: {what}")
        elif node.isdecimal():
            self._remember(f"broker {node} is advertised as {address}, which cannot be resolved: advertised.listeners")
        else:
            self._remember(f"{address} cannot be resolved")

    def instead_of(self, error: object) -> str:
        """Return the reason of a request that failed just now; the request's own error where none is known."""
        reason, at_s = self._last
        return reason if reason and time.monotonic() - at_s < _FRESH_S else str(error)

    def _remember(self, reason: str) -> None:
        self._last = (reason, time.monotonic())
