"""Who leads, by what the topic of both collectors says, and until when, by this machine's own clock. Pure.

No other machine's clock counts. A lease lasts from before its holder sent it, for the holder; and from when it was read, for the
other one: so it ends for the other one last.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from indoubt.resource_managers.topics.collector_topic import Kind, Lead, Record

LONG_AGO_S = float("-inf")


@dataclass(slots=True)
class Lease:
    """Fed with each record in the topic's order. ``now_s``: seconds of a steady clock; ``lasts_s``: how long a renewal is good."""

    lasts_s: float
    heard_s: float
    """When a sign of whoever leads was read last, or when this collector could last not see the topic."""
    is_new: bool = False
    """Nobody ever led, as far as the topic was read."""
    me: str = ""
    newest: Lead | None = None
    is_released: bool = False
    until_s: float = LONG_AGO_S
    """Until when this collector may lead."""
    other_s: float = LONG_AGO_S
    """When a sign of another one's lead was read last."""

    def __post_init__(self) -> None:
        self.me = self.me or uuid4().hex

    def read(self, record: Record, now_s: float) -> None:
        """Take in a record: only those of the newest lead count."""
        lead = record.lead
        if lead is None:
            self._hear(now_s)
            return
        self.is_new = False
        if self.newest is not None and lead.term < self.newest.term:
            return
        if record.kind is Kind.RELEASE:
            self.newest, self.is_released, self.other_s = lead, True, LONG_AGO_S
            return
        self.newest, self.is_released = lead, False
        self._hear(now_s)
        if lead.holder == self.me:
            self.extend(lead.sent_s)

    def _hear(self, now_s: float) -> None:
        self.heard_s = now_s
        if not self.is_mine:
            self.other_s = now_s

    def extend(self, sent_s: float) -> None:
        """Note that what was sent then was written by the newest lead, this collector's."""
        self.until_s = max(self.until_s, sent_s + self.lasts_s)

    def could_not_see(self, now_s: float) -> None:
        """Note that the topic could not be read: whoever leads may have renewed meanwhile."""
        self.heard_s = now_s

    def give_up(self) -> None:
        """Let this collector's lead go: should it lead again, it is another lead."""
        self.me, self.until_s = uuid4().hex, LONG_AGO_S

    @property
    def is_mine(self) -> bool:
        """Say whether the newest lead is this collector's."""
        return self.newest is not None and self.newest.holder == self.me and not self.is_released

    def leads(self, now_s: float) -> bool:
        """Say whether this collector leads: the lead is its own, and no other one may still believe that it leads."""
        return self.is_mine and self.other_s + self.lasts_s <= now_s < self.until_s

    def is_free(self, now_s: float) -> bool:
        """Say whether the lead may be taken, where the topic is read to its end."""
        return not self.is_mine and (self.is_new or self.is_released or now_s - self.heard_s >= self.lasts_s)
