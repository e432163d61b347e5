"""The person for whom a request is made, as two headers name it: to the app's pages, and from the app to the collector."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from indoubt.lifecycle.errors import IndoubtError
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.visible_text import visible

NAME_HEADER = "X-Indoubt-Person"
"""The name, percent-encoded UTF-8: a header holds no other letters."""
ROLE_HEADER = "X-Indoubt-Role"
MAX_NAME = 120


class InvalidPerson(IndoubtError):
    """A name or a role that cannot be one; the message never repeats the name, which may hold anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who signed in, and what this person may do."""

    name: str
    role: Role

    def headers(self) -> dict[str, str]:
        """Return the two headers that ``person`` reads."""
        return {NAME_HEADER: quote(self.name, safe="@."), ROLE_HEADER: self.role.value}


def named(name: str, role: Role) -> Person:
    """Return a person of this name. Raises InvalidPerson when it is empty, long, or would not be seen as it is."""
    if not 0 < len(name) <= MAX_NAME or name != name.strip() or visible(name) != name:
        raise InvalidPerson(f"a person's name takes 1 to {MAX_NAME} visible characters, without a blank at its ends")
    return Person(name=name, role=role)


def person(name: str | None, role: str | None) -> Person | None:
    """Return whom the values of the two headers name, None where both are absent. Raises InvalidPerson."""
    if name is None and role is None:
        return None
    try:
        return named(unquote(name or "", errors="strict"), Role(role))
    except ValueError:
        raise InvalidPerson(
            f"{NAME_HEADER} takes a percent-encoded name, and {ROLE_HEADER} takes "
            + " or ".join(each.value for each in Role)
        ) from None
