"""Tokens that the environment gives, by the name of their holder. No message and no repr shows one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import combinations

from indoubt.lifecycle.errors import SettingsError

OPERATOR, VIEWER, FOR_PERSONS = "INDOUBT_OPERATOR_TOKEN", "INDOUBT_VIEWER_TOKEN", "INDOUBT_FOR_PERSONS_TOKEN"
NAMES = frozenset({OPERATOR, VIEWER, FOR_PERSONS})
MIN_CHARACTERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens by the name of their holder. Never printed: repr shows names only."""

    operators: Mapping[str, str]
    viewers: Mapping[str, str]
    for_persons: Mapping[str, str] = field(default_factory=dict)
    """Of programs that sign persons in and ask for them, operators among them."""

    def __repr__(self) -> str:
        names = {each.name: sorted(getattr(self, each.name)) for each in fields(self)}
        return f"Tokens({names})"


def read(environment: Mapping[str, str]) -> Tokens | None:
    """Return the tokens, None when the environment gives none. Raises SettingsError."""
    given = {
        key: _pairs(key, environment[key]) if key in environment else {} for key in (OPERATOR, VIEWER, FOR_PERSONS)
    }
    for one, other in combinations(given, 2):
        if set(given[one].values()) & set(given[other].values()):
            raise SettingsError(f"{other} repeats a token of {one}; each token has one role")
    if not any(given.values()):
        return None
    return Tokens(operators=given[OPERATOR], viewers=given[VIEWER], for_persons=given[FOR_PERSONS])


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
