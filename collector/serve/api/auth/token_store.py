"""Tokens at rest: ``tokens.json`` holds salted hashes alone; a clear token is written once, into a file of its own.

A token is 192 random bits or more, so that one round of SHA-256 over salt and token is enough: there is nothing to guess.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Role

FILE_NAME = "tokens.json"
CLEAR_SUFFIX = ".token"
VERSION = 1
TOKEN_BYTES = 24
STRONG_LENGTH = 32
"""Characters of a token of 192 bits in URL-safe base 64: a token that is shorter may have been thought up by a person."""
SALT_BYTES = 16
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,79}")
_OWNER_ONLY = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    """One token as it is kept: whose it is and how to know it again, never the token. ``expires_at_ms``: epoch ms, None: never."""

    name: str
    role: Role
    salt: bytes
    digest: bytes
    expires_at_ms: int | None = None
    is_guessable: bool = False
    """True for one of fewer than 32 characters, which only the environment may give."""
    for_persons: bool = False
    """True for that of a program that signs persons in and asks for them."""

    @classmethod
    def of(
        cls, name: str, role: Role, token: str, expires_at_ms: int | None = None, *, for_persons: bool = False
    ) -> KnownToken:
        """Return what is kept of a clear token."""
        salt = secrets.token_bytes(SALT_BYTES)
        return cls(
            name=name,
            role=role,
            salt=salt,
            digest=_digest(salt, token),
            expires_at_ms=expires_at_ms,
            is_guessable=len(token) < STRONG_LENGTH,
            for_persons=for_persons,
        )

    def matches(self, given: str) -> bool:
        """Say whether this is the token, in a time that does not tell how near it is."""
        return hmac.compare_digest(self.digest, _digest(self.salt, given))

    def is_expired(self, at_ms: int) -> bool:
        """Say whether it has ended at that time (epoch ms)."""
        return self.expires_at_ms is not None and at_ms >= self.expires_at_ms

    def __repr__(self) -> str:
        return f"KnownToken({self.name!r}, {self.role.value}, expires_at_ms={self.expires_at_ms})"


def read(path: Path) -> tuple[KnownToken, ...]:
    """Return the tokens of a file, in its order. Raises SettingsError that names the file and what to do."""
    with _explained(path):
        kept = json.loads(path.read_text())
        if kept["version"] != VERSION:
            raise SettingsError(f"tokens in {path} have version {kept['version']!r}; this program knows {VERSION}")
        return tuple(_from_json(fields) for fields in kept["tokens"])


def read_or_make(directory: Path) -> tuple[tuple[KnownToken, ...], tuple[Path, ...]]:
    """Return the tokens kept in ``directory``, one per role made now if there are none, and the files of clear tokens just written.

    Raises SettingsError.
    """
    with _explained(directory / FILE_NAME), _locked(directory):
        if not (directory / FILE_NAME).exists():
            return _make(directory)
        return _kept(directory), ()


def kept(directory: Path) -> tuple[KnownToken, ...]:
    """Return the tokens kept in ``directory``, none if there is no file. Raises SettingsError."""
    with _explained(directory / FILE_NAME), _locked(directory):
        return _kept(directory)


def add(directory: Path, name: str, role: Role, expires_at_ms: int | None = None, *, for_persons: bool = False) -> str:
    """Make a token for a new name and return it in clear, which is the only time that it can be seen. Raises SettingsError."""
    _check_name(name)
    with _explained(directory / FILE_NAME), _locked(directory):
        known = _kept(directory)
        if any(stored.name == name for stored in known):
            raise SettingsError(f"the name {name!r} has a token already: revoke it first, or take another name")
        token = secrets.token_urlsafe(TOKEN_BYTES)
        made = KnownToken.of(name, role, token, expires_at_ms, for_persons=for_persons)
        _write(directory / FILE_NAME, [*known, made])
    return token


def revoke(directory: Path, name: str) -> None:
    """Forget the token of a name, and its clear file if that is still there. Raises SettingsError when there is none."""
    path = directory / FILE_NAME
    with _explained(path), _locked(directory):
        known = _kept(directory)
        left = [stored for stored in known if stored.name != name]
        if len(left) == len(known):
            names = ", ".join(stored.name for stored in known) or "none"
            raise SettingsError(f"no caller is named {name!r} in {path}; it holds tokens of {names}")
        _write(path, left)
        _clear_file(directory, name).unlink(missing_ok=True)


def _kept(directory: Path) -> tuple[KnownToken, ...]:
    path = directory / FILE_NAME
    return read(path) if path.exists() else ()


def _make(directory: Path) -> tuple[tuple[KnownToken, ...], tuple[Path, ...]]:
    """Write a clear token of each role into a file, then their hashes into tokens.json: a crash in between loses no token."""
    clear = {role: secrets.token_urlsafe(TOKEN_BYTES) for role in Role}
    for role, token in clear.items():
        _replace(_clear_file(directory, role.value), token + "\n")
    known = tuple(KnownToken.of(role.value, role, token) for role, token in clear.items())
    _write(directory / FILE_NAME, known)
    return known, tuple(_clear_file(directory, role.value) for role in Role)


def _from_json(fields: Mapping[str, Any]) -> KnownToken:
    expires_at_ms, for_persons = fields["expires_at_ms"], fields["for_persons"]
    if expires_at_ms is not None and type(expires_at_ms) is not int:
        raise TypeError("expires_at_ms")
    if type(for_persons) is not bool:
        raise TypeError("for_persons")
    return KnownToken(
        name=str(fields["name"]),
        role=Role(fields["role"]),
        salt=bytes.fromhex(fields["salt"]),
        digest=bytes.fromhex(fields["sha256"]),
        expires_at_ms=expires_at_ms,
        for_persons=for_persons,
    )


def _write(path: Path, known: Sequence[KnownToken]) -> None:
    tokens = [
        {
            "name": stored.name,
            "role": stored.role.value,
            "salt": stored.salt.hex(),
            "sha256": stored.digest.hex(),
            "expires_at_ms": stored.expires_at_ms,
            "for_persons": stored.for_persons,
        }
        for stored in known
    ]
    _replace(path, json.dumps({"version": VERSION, "tokens": tokens}, indent=1) + "\n")


def _replace(path: Path, text: str) -> None:
    """Put a file in its place at once and whole, readable for its owner only."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _clear_file(directory: Path, name: str) -> Path:
    return directory / f"{name}{CLEAR_SUFFIX}"


def _check_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name):
        raise SettingsError(f"{name!r} cannot be a name; it takes 1 to 80 letters, digits, '.', '_', '@' and '-'")


def _digest(salt: bytes, token: str) -> bytes:
    return hashlib.sha256(salt + token.encode()).digest()


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one process at a time change the tokens of a directory, which is made if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # Only the kind of the error: its text may hold a part of the file.
        raise SettingsError(
            f"tokens in {path} cannot be read or made ({type(error).__name__}): mend or delete the file"
        ) from None
