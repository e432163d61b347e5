"""Tokens that the environment gives, by the name of their holder. No message and no repr shows one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lifecycle.errors import SettingsError

OPERATOR, VIEWER = "INDOUBT_OPERATOR_TOKEN", "INDOUBT_VIEWER_TOKEN"
NAMES = frozenset({OPERATOR, VIEWER})
MIN_CHARACTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens by the name of their holder. Never printed: repr shows names only."""

    operators: Mapping[str, str]
    viewers: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Tokens(operators={sorted(self.operators)}, viewers={sorted(self.viewers)})"


def read(environment: Mapping[str, str]) -> Tokens | None:
    """Return the tokens, None when the environment gives none. Raises SettingsError."""
    operators, viewers = (_pairs(key, environment[key]) if key in environment else {} for key in (OPERATOR, VIEWER))
    if set(operators.values()) & set(viewers.values()):
        raise SettingsError(f"{VIEWER} repeats a token of {OPERATOR}; each token has one role")
    return Tokens(operators=operators, viewers=viewers) if operators or viewers else None


def _pairs(key: str, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for number, pair in enumerate(text.split(","), 1):
        name, _, token = pair.strip().partition(":")
        if not name or len(token) < MIN_CHARACTERS:
            # The pair itself stays out of the message: it may hold a secret.
            raise SettingsError(
                f"{key}: pair {number} is not name:token with a token of {MIN_CHARACTERS} or more characters"
            )
        if name in pairs:
            raise SettingsError(f"{key}: the name {name!r} is given twice")
        pairs[name] = token
    return pairs
