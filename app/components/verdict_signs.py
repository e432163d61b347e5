"""A sign, a word and a tone for each verdict, state and outcome: colour never stands alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

from indoubt.app.components.markup import Html, el
from indoubt.app.components.time_text import at
from indoubt.lifecycle.states import TransactionState
from indoubt.lifecycle.verdicts import Certainty, Verdict


class Tone(Enum):
    """The value is the CSS class."""

    URGENT = "urgent"
    WARNING = "warning"
    NOTICE = "notice"
    CALM = "calm"
    GOOD = "good"


VERDICT_SIGNS: dict[Verdict, tuple[str, Tone, str]] = {
    Verdict.COMMIT_IT: ("✔", Tone.CALM, "its owner counts it as written: an abort would lose its rows"),
    Verdict.LOST: ("✖", Tone.URGENT, "commit was decided, but it was aborted: a restart writes its batch again"),
    Verdict.HANGING: ("∞", Tone.URGENT, "no coordinator knows it any more: it stays open until you end it"),
    Verdict.ABORT_IT: ("↶", Tone.WARNING, "its owner is gone and writes its rows again: an abort loses nothing"),
    Verdict.AT_RISK: ("△", Tone.WARNING, "less time is left than a restart takes"),
    Verdict.UNKNOWN: ("?", Tone.NOTICE, "something could not be read, so no order is offered: see the evidence"),
    Verdict.FOREIGN: ("◇", Tone.NOTICE, "not one of your pipelines: only its owner knows what an abort loses"),
    Verdict.IN_PROGRESS: ("▸", Tone.CALM, "its owner is alive and has time: leave it alone"),
    Verdict.SETTLED: ("●", Tone.GOOD, "it has ended, and nothing of it is missing"),
}
"""Sign, tone and the one-line meaning of every verdict."""

OUTCOMES = {
    "accepted": ("✔", "done", Tone.GOOD),
    "dry_run": ("○", "dry run", Tone.CALM),
    "refused": ("⊘", "refused", Tone.WARNING),
    "failed": ("✖", "failed", Tone.URGENT),
    "pending": ("…", "sent, no answer yet", Tone.NOTICE),
}
"""Sign, word and tone of how an order ended."""
_SAFE = {Verdict.COMMIT_IT: "commit · safe", Verdict.ABORT_IT: "abort · safe"}
"""What a badge says where the verdict is certain."""
_ASK_FOR_AN_ORDER = frozenset({Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.HANGING})
_CERTAINTIES = {
    Certainty.CERTAIN: "all that it rests on was read from its owner, now",
    Certainty.LIKELY: "it assumes something: see the evidence",
    Certainty.GUESS: "nothing that was read says what is right",
}

STATE_SIGNS: dict[TransactionState, str] = {
    TransactionState.OPEN: "○",
    TransactionState.PREPARED: "◐",
    TransactionState.DECIDED: "◕",
    TransactionState.COMMITTING: "◔",
    TransactionState.COMMITTED: "●",
    TransactionState.ABORTING: "⊖",
    TransactionState.ABORTED: "⊘",
    TransactionState.LOST: "✖",
    TransactionState.WRITTEN_AGAIN: "↻",
    TransactionState.ENDED: "◌",
}

_UNDONE_SIGNS: dict[TransactionState, tuple[Tone, str]] = {
    TransactionState.ABORTED: (Tone.WARNING, "rolled back, and never decided"),
    TransactionState.LOST: (
        Tone.URGENT,
        "commit was decided, but it was aborted, and nothing has written its rows again",
    ),
    TransactionState.WRITTEN_AGAIN: (
        Tone.CALM,
        "commit was decided, but it was aborted; a later run wrote its rows again",
    ),
}

WordSigns = Mapping[str, tuple[str, Tone, str | None]]
"""Sign, tone and meaning of each value of a field (docs/api.md), the worst first; None: the word says it."""
CHECKPOINT_SIGNS: WordSigns = {
    "failed": ("✖", Tone.URGENT, None),
    "started": ("▸", Tone.CALM, None),
    "completed": ("●", Tone.GOOD, None),
}
OBSERVER_SIGNS: WordSigns = {
    "down": ("✖", Tone.URGENT, None),
    "starting": ("…", Tone.NOTICE, None),
    "absent": ("–", Tone.NOTICE, None),
    "up": ("✔", Tone.GOOD, None),
}
CERTAINTY_SIGNS: WordSigns = {
    "guess": ("?", Tone.WARNING, None),
    "likely": ("≈", Tone.NOTICE, None),
    "certain": ("✔", Tone.GOOD, None),
}


def sign_of(signs: WordSigns, word: str) -> tuple[str, Tone, str | None]:
    """Return sign, tone and meaning of a word; a newer collector may send an unknown one."""
    return signs.get(word, ("?", Tone.NOTICE, "this page does not know this word: the collector is newer"))


def word_badge(signs: WordSigns, word: str, said: object = None, tone: Tone | None = None) -> Html:
    """Return sign and word in the word's tone, or in another ``tone``; its meaning is the hint. ``said``: in place of the word."""
    sign, of_word, meaning = sign_of(signs, word)
    return badge(sign, said or word, tone or of_word, meaning)


def words_there(signs: WordSigns, words: Iterable[str]) -> dict[str, int]:
    """Return how often each word occurs, the worst first, unknown words last."""
    count = Counter(words)
    return {word: count[word] for word in dict.fromkeys([*signs, *count]) if count[word]}


def outcome_sign(outcome: str) -> tuple[str, str, Tone]:
    """Return sign, word and tone of how an order ended; a newer collector may send an unknown one."""
    return OUTCOMES.get(outcome, ("?", outcome.replace("_", " "), Tone.NOTICE))


def verdict_badge(verdict: Verdict, certainty: Certainty | None = None) -> Html:
    """Return sign and word in the verdict's tone; its meaning is the hint. ``certainty``: said where it asks for an order."""
    sign, tone, meaning = VERDICT_SIGNS[verdict]
    if certainty is None or verdict not in _ASK_FOR_AN_ORDER:
        return badge(sign, verdict.value, tone, meaning)
    word = _SAFE.get(verdict) if certainty is Certainty.CERTAIN else None
    return badge(sign, word or f"{verdict.value} · {certainty.value}", tone, f"{meaning}; {_CERTAINTIES[certainty]}")


def card_tone(verdict: Verdict, deadline_ms: int | None) -> Tone:
    """Return the tone of a card or row: a commit is calm by itself, and urgent because its time runs out."""
    if verdict is Verdict.COMMIT_IT:
        return Tone.WARNING if deadline_ms is None else Tone.URGENT
    return VERDICT_SIGNS[verdict][1]


def undone_badge(state: TransactionState, written_again_at_ms: int | None) -> list[Html]:
    """Return sign and word of a state that rolled a transaction back, and when its rows were written again."""
    tone, meaning = _UNDONE_SIGNS.get(state, (Tone.NOTICE, None))
    return [badge(STATE_SIGNS[state], state.value, tone, meaning), *when(written_again_at_ms)]


def when(written_again_at_ms: int | None) -> list[Html]:
    """Return when rows were written again, to stand behind the word; nothing where they were not."""
    return [el("small", " ", at(written_again_at_ms))] if written_again_at_ms is not None else []


def badge(sign: str, word: object, tone: Tone, meaning: str | None = None) -> Html:
    """Return a sign and a word in a tone."""
    return el("span", el("b", sign, aria_hidden="true"), " ", word, class_=f"badge {tone.value}", title=meaning)


def state_text(state: TransactionState, written_again_at_ms: int | None = None) -> Html:
    """Return sign and word of a state, and when its rows were written again, where they were."""
    sign = el("b", STATE_SIGNS[state], aria_hidden="true")
    return el("span", sign, " ", state.value, when(written_again_at_ms), class_="state")
