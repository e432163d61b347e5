"""Sessions: who signed in, kept in a signed cookie. A new process has a new key, so its persons sign in again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import InvalidPerson, Person, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One person in one browser, until ``ends_at_s`` (epoch seconds)."""

    person: Person
    id: str
    ends_at_s: float


class Sealed:
    """Writes values into cookies and reads back only what it wrote itself, for one purpose each."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, purpose: str, value: Mapping[str, Any]) -> str:
        """Return the value as the text of a cookie; it is signed, not hidden."""
        return self._of(purpose).dumps(dict(value))

    def read(self, purpose: str, text: str) -> dict[str, Any] | None:
        """Return what ``write`` was given, None for any other text.

        Base64 has several spellings of one value, since it ignores the last character's unused bits: only ours counts.
        """
        try:
            value = self._of(purpose).loads(text)
        except BadData:
            return None
        return value if isinstance(value, dict) and self.write(purpose, value) == text else None

    def _of(self, purpose: str) -> URLSafeSerializer:
        return URLSafeSerializer(self._key, salt=purpose, signer_kwargs={"digest_method": hashlib.sha256})


class Sessions:
    """Begins, reads and ends sessions. Used by the server's event loop alone."""

    def __init__(self, sealed: Sealed, length_s: float) -> None:
        self._sealed, self.length_s = sealed, length_s
        self._signed_out: dict[str, float] = {}
        self._changed = asyncio.Event()

    def begin(self, person: Person) -> Session:
        """Return a new session of a person."""
        return Session(person=person, id=secrets.token_urlsafe(12), ends_at_s=time.time() + self.length_s)

    def text(self, session: Session) -> str:
        """Return the session as the text of its cookie."""
        person = session.person
        fields = {"person": person.name, "role": person.role.value, "id": session.id, "ends": session.ends_at_s}
        return self._sealed.write("session", fields)

    def read(self, text: str) -> Session | None:
        """Return the session of a cookie, None if it is forged, over, or was signed out."""
        fields = self._sealed.read("session", text)
        if fields is None:
            return None
        try:
            person = named(fields["person"], Role(fields["role"]))
        except (KeyError, ValueError, InvalidPerson):
            return None
        session = Session(person=person, id=fields["id"], ends_at_s=fields["ends"])
        return None if self._is_over(session) else session

    def end(self, session: Session) -> None:
        """Sign out: the cookie counts no more, and ``over`` returns at once."""
        now_s = time.time()
        self._signed_out = {id_: ends_at_s for id_, ends_at_s in self._signed_out.items() if ends_at_s > now_s}
        self._signed_out[session.id] = session.ends_at_s
        self._changed.set()
        self._changed = asyncio.Event()

    async def over(self, session: Session) -> None:
        """Wait until the session is over."""
        while not self._is_over(session):
            changed = self._changed
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), max(0.0, session.ends_at_s - time.time()))

    def _is_over(self, session: Session) -> bool:
        return session.ends_at_s <= time.time() or session.id in self._signed_out
