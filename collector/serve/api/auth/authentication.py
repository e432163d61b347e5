"""Who calls: bearer tokens, known by their hashes and compared in constant time; a viewer reads, an operator also orders."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from indoubt.collector.config.tokens import Tokens
from indoubt.collector.serve.api.auth import token_store
from indoubt.collector.serve.api.auth.token_store import KnownToken
from indoubt.lifecycle.errors import IndoubtError, SettingsError
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import NAME_HEADER, Person

log = logging.getLogger(__name__)


class MayNotSpeakForPersons(IndoubtError):
    """A request names a person, and its token may not speak for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: the holder of a token, or a person through one.

    ``is_guessable``: the token is so short that guesses at it must be slowed down. ``for_persons``: its holder is a program that
    signs persons in and asks for them.
    """

    name: str
    role: Role
    is_guessable: bool = False
    for_persons: bool = False

    def asking_for(self, person: Person | None) -> Caller:
        """Return who asks through this token: the person, with the lesser of both roles and the token behind the name.

        A program that speaks for persons only reads when it names none, so that each of its orders has a person's name.
        Raises MayNotSpeakForPersons.
        """
        if person is None:
            return replace(self, role=Role.VIEWER) if self.for_persons else self
        if not self.for_persons:
            raise MayNotSpeakForPersons(
                f"the token of {self.name} may not speak for persons, and the request names one in {NAME_HEADER}: give the "
                "program that signs persons in a token of its own (indoubt token add NAME --for-persons)"
            )
        both = (self.role, person.role)
        role = Role.OPERATOR if all(each is Role.OPERATOR for each in both) else Role.VIEWER
        return replace(self, name=f"{person.name} via {self.name}", role=role)


class KnownTokens:
    """The tokens that are valid now. Thread-safe."""

    def __init__(self, known: Callable[[], Sequence[KnownToken]]) -> None:
        self._known = known

    @classmethod
    def given(cls, tokens: Tokens) -> KnownTokens:
        """Return the tokens of the environment; they are not kept in clear."""
        roles = ((Role.VIEWER, tokens.viewers), (Role.OPERATOR, tokens.operators), (Role.OPERATOR, tokens.for_persons))
        known = [
            KnownToken.of(name, role, token, for_persons=holders is tokens.for_persons)
            for role, holders in roles
            for name, token in holders.items()
        ]
        return cls(lambda: known)

    @classmethod
    def of_file(cls, path: Path) -> KnownTokens:
        """Return the tokens of a file, read again when it changes, so that a token is made or revoked without a restart."""
        return cls(_TokenFile(path).known)

    def caller_of(self, authorization: str, at_ms: int) -> Caller | None:
        """Return who sent the Authorization header at that time (epoch ms), or None when no valid token is in it.

        Every token is compared, so that time does not tell which one is near.
        """
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        found: Caller | None = None
        for token in self._known():
            if token.matches(given.strip()) and not token.is_expired(at_ms):
                found = Caller(
                    name=token.name,
                    role=token.role,
                    is_guessable=token.is_guessable,
                    for_persons=token.for_persons,
                )
        return found


class _TokenFile:
    """The file as it was read last, and when it was written then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._known: Sequence[KnownToken] = ()

    def known(self) -> Sequence[KnownToken]:
        """Return its tokens; none while it is missing or broken: whoever removes it means to shut everybody out."""
        with self._lock:
            try:
                status = self._path.stat()
                seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            except OSError:
                seen = (0, 0, 0)
            if seen != self._seen:
                self._seen = seen
                try:
                    self._known = token_store.read(self._path)
                except SettingsError as error:
                    self._known = ()
                    log.error("%s; no token is accepted until then", error)
            return self._known
