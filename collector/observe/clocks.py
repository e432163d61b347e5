"""Measures how far this machine's clock is from the brokers' clocks, which give transactions their times; writes nothing.

Flink's and the databases' clocks are measured by who polls them anyway; the status of this observer tells of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from indoubt.collector.observe.source import Observer
from indoubt.collector.records.observer_kind import ObserverKind
from indoubt.collector.runtime.clock import BROKERS, CLOCK, TOLERATED_MS, ClockOffsets
from indoubt.collector.views.current_state import CurrentState
from indoubt.resource_managers.kafka import broker_clocks
from indoubt.resource_managers.kafka.broker_clocks import ClockNotTold, Witness
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.kafka.resource_manager import KafkaResourceManager

MEASURE_EVERY_MS = 10_000
LOOK_S = 0.5
WIDTH_MS = 200
"""So near to the truth both bounds are brought."""
MOST_QUESTIONS = 100
IDS_ASKED = 50


class Clocks(Observer):
    """Asks one transactional id of each coordinator whether its transaction is older than so long, by that broker's clock."""

    kind = ObserverKind.CLOCKS

    def __init__(self, current: CurrentState, connection: KafkaConnection, broker: KafkaResourceManager) -> None:
        super().__init__(current)
        self._connection, self._broker = connection, broker
        self._measured_ms = -math.inf
        self._ahead_ms = 0
        self._tells = True
        self._open: set[tuple[str, int]] | None = None
        self._asked_ms = 0
        self._shown = ""

    @property
    def note(self) -> str:
        """Return which clocks are off, or that it is not known."""
        return self.current.clocks.doubt()

    def observe(self) -> None:
        """Measure until stopped. Raises Unreachable, ResourceManagerError."""
        while not self.stopping.is_set():
            if self._is_due():
                self.look()
            self.polled()
            if (shown := self.note) != self._shown:
                self._shown = shown
                self.current.changed()
            self.stopping.wait(LOOK_S)

    def look(self) -> None:
        """Measure once. Raises Unreachable, ResourceManagerError."""
        if not self._tells:
            self._measure_by_openings()
            return
        ahead_ms = CLOCK.wall_ms() - CLOCK.steady_ms()
        try:
            found = broker_clocks.witnesses(self._connection, self.current.transactions.known_ids(IDS_ASKED))
            measured = [_measure(self._connection, witness, self.current.clocks) for witness in found]
        except ClockNotTold:
            self._tells = False
            return
        if any(measured):
            self._measured_ms, self._ahead_ms = CLOCK.steady_ms(), ahead_ms

    def _is_due(self) -> bool:
        ahead_ms, steady_ms = CLOCK.wall_ms() - CLOCK.steady_ms(), CLOCK.steady_ms()
        return abs(ahead_ms - self._ahead_ms) > TOLERATED_MS or steady_ms - self._measured_ms >= MEASURE_EVERY_MS

    def _measure_by_openings(self) -> None:
        """Measure by what opened between two looks: its time is of the broker's clock, at a moment between them."""
        asked_ms = CLOCK.steady_ms()
        listed = self._broker.list_transactions()
        answered_ms = CLOCK.steady_ms()
        now_open = {(view.transaction, view.started_at_ms) for view in listed if view.started_at_ms is not None}
        for _, started_ms in now_open - self._open if self._open is not None else ():
            self.current.clocks.saw(BROKERS, started_ms, after_ms=self._asked_ms, before_ms=answered_ms)
        self._open, self._asked_ms = now_open, asked_ms


def _measure(connection: KafkaConnection, witness: Witness, clocks: ClockOffsets) -> bool:
    """Narrow the bounds of one broker's clock; return whether that went to its end. Raises ClockNotTold, Unreachable."""
    owner = f"broker {witness.node}"

    def is_beyond(offset_ms: int) -> bool | None:
        """Say whether the broker's clock is further before the steady one than this."""
        asked_ms = CLOCK.steady_ms()
        found = broker_clocks.has_passed(connection, witness, asked_ms + offset_ms)
        if found is True:
            clocks.saw(owner, asked_ms + offset_ms, before_ms=CLOCK.steady_ms())
        elif found is False:
            clocks.saw(owner, asked_ms + offset_ms, after_ms=asked_ms)
        return found

    guess_ms = clocks.middle_ms(owner)
    return narrowed(is_beyond, CLOCK.wall_ms() - CLOCK.steady_ms() if guess_ms is None else guess_ms)


def narrowed(is_beyond: Callable[[int], bool | None], guess_ms: int) -> bool:
    """Ask around the guess, then further away, then between, until the truth lies within WIDTH_MS; False: it was not told."""
    low_ms, high_ms = guess_ms - WIDTH_MS // 2, guess_ms + WIDTH_MS // 2
    step_ms, is_low, is_high = WIDTH_MS, False, False
    for _ in range(MOST_QUESTIONS):
        asks_low = not is_low
        asked_ms = low_ms if asks_low else high_ms
        if is_low and is_high:
            if high_ms - low_ms <= WIDTH_MS:
                return True
            asked_ms = (low_ms + high_ms) // 2
        answer = is_beyond(asked_ms)
        if answer is None:
            return False
        if answer:
            low_ms, is_low = asked_ms, True
            high_ms = high_ms if is_high or high_ms > asked_ms else asked_ms + step_ms
        else:
            high_ms, is_high = asked_ms, True
            low_ms = low_ms if is_low or low_ms < asked_ms else asked_ms - step_ms
        step_ms *= 2
    return False
