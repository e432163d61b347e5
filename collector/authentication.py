"""Who calls: bearer tokens, compared in constant time; a viewer reads, an operator also orders."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from collector.settings import Tokens
from lifecycle.errors import SettingsError

TOKEN_BYTES = 24
FILE_NAME = "tokens.json"


class Role(Enum):
    """What a caller may do; the value is what the API says."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a token belongs to."""

    name: str
    role: Role


def caller_of(authorization: str, tokens: Tokens) -> Caller | None:
    """Return who sent the Authorization header, or None when no known token is in it. Time does not tell which one is near."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "bearer":
        return None
    found: Caller | None = None
    for role, holders in ((Role.VIEWER, tokens.viewers), (Role.OPERATOR, tokens.operators)):
        for name, token in holders.items():
            if hmac.compare_digest(token.encode(), given.strip().encode()):
                found = Caller(name=name, role=role)
    return found


def tokens_of(directory: Path) -> tuple[Tokens, Path]:
    """Return the tokens that are kept in ``directory``, made now if there are none, and their file (mode 0600).

    Raises SettingsError when the file cannot be read or written.
    """
    path = directory / FILE_NAME
    try:
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            made = {role.value: {role.value: secrets.token_urlsafe(TOKEN_BYTES)} for role in Role}
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump(made, file)
        kept = json.loads(path.read_text())
        return Tokens(operators=dict(kept[Role.OPERATOR.value]), viewers=dict(kept[Role.VIEWER.value])), path
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"tokens in {path} cannot be read or made ({type(error).__name__}): mend or delete the file"
        ) from None
