"""The two headers that name a person: what one side writes the other reads, and nothing that cannot be seen gets through."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.persons import MAX_NAME, NAME_HEADER, ROLE_HEADER, InvalidPerson, named, person


@pytest.mark.parametrize("name", ["anna@example.org", "Zoë Müller", "安娜", "a%20b", "x" * MAX_NAME])
def test_what_the_headers_say_is_read_back(name):
    written = named(name, Role.OPERATOR).headers()
    assert all(value.isascii() and value.isprintable() for value in written.values())
    assert person(written[NAME_HEADER], written[ROLE_HEADER]) == named(name, Role.OPERATOR)


def test_without_headers_there_is_nobody():
    assert person(None, None) is None


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("anna", None),
        (None, "operator"),
        ("", "operator"),
        ("anna", "root"),
        ("anna", ""),
        ("%ff", "viewer"),
        ("anna%0Aben", "viewer"),
        ("anna%E2%80%AEnib", "viewer"),
        ("%20anna", "viewer"),
        ("x" * (MAX_NAME + 1), "viewer"),
    ],
)
def test_half_a_person_or_a_name_that_misleads_is_refused(name, role):
    with pytest.raises(InvalidPerson) as refused:
        person(name, role)
    assert "anna" not in str(refused.value)
