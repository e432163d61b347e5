"""A sign, a word and a tone for each verdict, state and outcome: colour never stands alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum

from indoubt.app.components.markup import Html, el
from indoubt.lifecycle.checkpoints import CheckpointState
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
    Verdict.COMMIT_IT: ("✔", Tone.URGENT, "it counts as written: an abort would lose its rows"),
    Verdict.LOST: ("✖", Tone.URGENT, "commit was decided, but it was aborted: its batch must be replayed"),
    Verdict.HANGING: ("∞", Tone.URGENT, "no coordinator will end it: it never ends by itself"),
    Verdict.ABORT_IT: ("↶", Tone.WARNING, "its owner is gone and writes its rows again: an abort loses nothing"),
    Verdict.AT_RISK: ("△", Tone.WARNING, "less time is left than recovery needs"),
    Verdict.UNKNOWN: ("?", Tone.NOTICE, "evidence is missing: no order is offered"),
    Verdict.FOREIGN: ("◇", Tone.NOTICE, "no checkpoint evidence: only its owner knows what an abort loses"),
    Verdict.IN_PROGRESS: ("▸", Tone.CALM, "its owner is alive, and its timeout is far"),
    Verdict.SETTLED: ("●", Tone.GOOD, "it ended as it should"),
}
"""Sign, tone and the one-line meaning of every verdict."""

_ASK_FOR_AN_ORDER = frozenset({Verdict.COMMIT_IT, Verdict.ABORT_IT, Verdict.HANGING})
_CERTAINTIES = {
    Certainty.CERTAIN: "right whatever else is true",
    Certainty.LIKELY: "something was not seen, see the evidence",
    Certainty.GUESS: "no evidence says what is right",
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
    TransactionState.ENDED: "◌",
}

CHECKPOINT_SIGNS: dict[CheckpointState, tuple[str, Tone]] = {
    CheckpointState.STARTED: ("▸", Tone.CALM),
    CheckpointState.COMPLETED: ("●", Tone.GOOD),
    CheckpointState.FAILED: ("✖", Tone.URGENT),
}

OBSERVER_SIGNS: dict[str, tuple[str, Tone]] = {
    "up": ("✔", Tone.GOOD),
    "starting": ("…", Tone.NOTICE),
    "down": ("✖", Tone.URGENT),
    "absent": ("–", Tone.NOTICE),
}

CERTAINTY_SIGNS: dict[str, tuple[str, Tone]] = {
    "certain": ("✔", Tone.GOOD),
    "likely": ("≈", Tone.NOTICE),
    "guess": ("?", Tone.WARNING),
}


UNKNOWN_SIGN = ("?", Tone.NOTICE, "this page does not know what this means")
"""Of a word that only a newer collector knows."""
WordSigns = Mapping[str, tuple[str, Tone, str]]
"""Sign, tone and meaning of each value of a field (docs/api.md), the worst first."""


def sign_of(signs: WordSigns, word: str) -> tuple[str, Tone, str]:
    """Return sign, tone and meaning of a word; a newer collector may send an unknown one."""
    return signs.get(word, UNKNOWN_SIGN)


def word_badge(signs: WordSigns, word: str) -> Html:
    """Return sign and word in the word's tone; its meaning is the hint."""
    sign, tone, meaning = sign_of(signs, word)
    return badge(sign, word, tone, meaning)


def words_there(signs: WordSigns, words: Iterable[str]) -> dict[str, int]:
    """Return how often each word occurs, the worst first, unknown words last."""
    count = Counter(words)
    return {word: count[word] for word in dict.fromkeys([*signs, *count]) if count[word]}


def verdict_badge(verdict: Verdict, certainty: Certainty | None = None) -> Html:
    """Return sign and word in the verdict's tone; its meaning is the hint. ``certainty``: said where it asks for an order."""
    sign, tone, meaning = VERDICT_SIGNS[verdict]
    if certainty is None or verdict not in _ASK_FOR_AN_ORDER:
        return badge(sign, verdict.value, tone, meaning)
    return badge(sign, f"{verdict.value} · {certainty.value}", tone, f"{meaning}; {_CERTAINTIES[certainty]}")


def certainty_badge(certainty: str) -> Html:
    """Return sign and word of a certainty."""
    sign, tone = CERTAINTY_SIGNS.get(certainty, ("?", Tone.NOTICE))
    return badge(sign, certainty, tone)


def badge(sign: str, word: str, tone: Tone, meaning: str | None = None) -> Html:
    """Return a sign and a word in a tone."""
    return el("span", el("b", sign, aria_hidden="true"), " ", word, class_=f"badge {tone.value}", title=meaning)


def state_text(state: TransactionState) -> Html:
    """Return sign and word of a state."""
    return el("span", el("b", STATE_SIGNS[state], aria_hidden="true"), " ", state.value, class_="state")
