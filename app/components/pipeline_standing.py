"""How a pipeline stands: what it reported last, and whatever of it needs attention. It is not well while something does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import duration, since
from indoubt.app.components.verdict_signs import UNKNOWN_SIGN, Tone, badge
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.attention import Attention, AttentionKind
from indoubt.lifecycle.rows.pipelines import PipelineRow, RestartUnderWay

STATES = {
    "running": ("▸", Tone.GOOD, "its query runs"),
    "recovering": ("◌", Tone.CALM, "a new run settles what the run before it left; its query has not started yet"),
    "restarting": ("△", Tone.WARNING, "its driver ended; its supervisor starts the next run"),
    "stopped": ("■", Tone.NOTICE, "its supervisor ended too: only you can start it again"),
}
"""Sign, tone and meaning of a pipeline's state (docs/api.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStanding:
    """``needs``: the card about its driver, which says more than what it reported last; ``others``: all other cards about it."""

    row: PipelineRow
    needs: Attention | None
    others: Sequence[Attention]

    @classmethod
    def of(cls, row: PipelineRow, cards: Iterable[Attention]) -> PipelineStanding:
        """Return how it stands by the cards of the overview, the most urgent first."""
        about = [card for card in cards if row.pipeline == card.pipeline or row.key == card.target]
        needs = next((card for card in about if card.kind is AttentionKind.PIPELINE), None)
        return cls(row=row, needs=needs, others=[card for card in about if card is not needs])

    @property
    def tone(self) -> Tone:
        """Return the colour of its card: its state's, unless something of it needs attention."""
        if self.needs is not None:
            return Tone.URGENT
        if self.others:
            return Tone.URGENT if any(card.severity == "critical" for card in self.others) else Tone.WARNING
        return STATES.get(self.row.state, UNKNOWN_SIGN)[1]

    @property
    def why(self) -> str:
        """Return what needs attention: of its driver, else the most urgent; empty where nothing does."""
        first = next(iter([self.needs] if self.needs is not None else self.others), None)
        return f"{first.headline} {first.consequence}" if first is not None else ""

    @property
    def under_way(self) -> Html | None:
        """Return what goes on while it restarts, None while it does not."""
        return el("div", *restart_under_way(self.row.restart), class_="why") if self.row.restart is not None else None

    def badge(self) -> Html:
        """Return sign and word of it; the tooltip says what the word means."""
        state = self.row.state
        if self.needs is not None:
            # A driver that stands still reports nothing any more.
            return badge("‖", self.needs.badge, self.tone, f"it reported last: {state}")
        sign, tone, meaning = STATES.get(state, UNKNOWN_SIGN)
        if self.others:
            verb = "needs" if len(self.others) == 1 else "need"
            return badge("▲", f"{state}, {counted(len(self.others), 'thing')} {verb} attention", self.tone, meaning)
        return badge(sign, state, tone, meaning)


def restart_under_way(restart: RestartUnderWay) -> Sequence[object]:
    """Return which run is starting, for how long by now, and how long it usually takes."""
    what = f"run {restart.run} is starting, " if restart.run is not None else "a restart is under way, "
    usually = f" of usually {duration(restart.usually_ms)}" if restart.usually_ms is not None else ""
    return what, since(restart.since_ms, UTC), usually
