"""How a pipeline stands: what it reported last, and whatever of it needs attention. It is not well while something does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from indoubt.app.components.incident_card import incident_tone
from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import duration, since
from indoubt.app.components.verdict_signs import Tone, WordSigns, badge, sign_of, word_badge
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.attention import Attention, AttentionKind
from indoubt.lifecycle.rows.incidents import Incident, IncidentState
from indoubt.lifecycle.rows.pipelines import PipelineRow, RestartUnderWay

STATES: WordSigns = {
    "running": ("▸", Tone.GOOD, "it reads and writes"),
    "recovering": ("◌", Tone.CALM, "a new run starts and finishes the last batch"),
    "restarting": ("△", Tone.WARNING, "its driver ended; its supervisor starts the next run"),
    "stopped": ("■", Tone.NOTICE, "its supervisor ended too: only you can start it again"),
}
"""Sign, tone and meaning of a pipeline's state (docs/api.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStanding:
    """``incident``: that of the pipeline, None where all of it is well."""

    row: PipelineRow
    incident: Incident | None

    @classmethod
    def of(cls, row: PipelineRow, incidents: Iterable[Incident]) -> PipelineStanding:
        """Return how it stands by the incidents that last."""
        return cls(row=row, incident=next((one for one in incidents if one.application == row.pipeline), None))

    @property
    def needs(self) -> Attention | None:
        """Return what is wrong with its driver, which says more than what it reported last."""
        parts = self.incident.parts if self.incident is not None else ()
        return next((part for part in parts if part.kind is AttentionKind.PIPELINE), None)

    @property
    def tone(self) -> Tone:
        """Return the colour of its card: its state's, unless something of it needs attention."""
        if self.incident is None:
            return sign_of(STATES, self.row.state)[1]
        return incident_tone(self.incident)

    @property
    def why(self) -> str:
        """Return what needs attention; empty where nothing does."""
        return f"{self.incident.headline} {self.incident.consequence}" if self.incident is not None else ""

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
        if self.incident is not None and self.incident.state is IncidentState.ACT:
            things = max(1, len(self.incident.parts))
            verb = "needs" if things == 1 else "need"
            said = f"{state}, {counted(things, 'thing')} {verb} attention"
            return badge("▲", said, self.tone, sign_of(STATES, state)[2])
        return word_badge(STATES, state)


def restart_under_way(restart: RestartUnderWay) -> Sequence[object]:
    """Return which run is starting, for how long by now, and how long it usually takes."""
    what = f"run {restart.run} is starting, " if restart.run is not None else "a restart is under way, "
    usually = f" of usually {duration(restart.usually_ms)}" if restart.usually_ms is not None else ""
    return what, since(restart.since_ms), usually
