"""What servers and drivers answer, and what it means to the protocol; those that no server here gives are shown here only."""

from __future__ import annotations

import psycopg
import pytest

from indoubt.lifecycle.errors import RecordTooLarge, ResourceManagerError, SettingsError, Unreachable
from indoubt.resource_managers.database.errors import (
    BranchBusy,
    DuplicateKey,
    LockTimeout,
    NoSuchBranch,
    outside_its_errors,
)
from indoubt.resource_managers.mysql import session as mysql_session
from indoubt.resource_managers.postgres import session as postgres_session

WHERE = "mysql at db:3306, database shop: xa"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1397, NoSuchBranch),
        (1402, NoSuchBranch),
        (1613, NoSuchBranch),
        (1614, NoSuchBranch),
        (1399, BranchBusy),
        (1440, BranchBusy),
        (3235, BranchBusy),
        (1205, LockTimeout),
        (1213, LockTimeout),
        (1062, DuplicateKey),
        (2003, Unreachable),
        (2006, Unreachable),
        (2013, Unreachable),
        (1053, Unreachable),
        (1040, Unreachable),
        (1927, Unreachable),
        (4031, Unreachable),
        (1045, SettingsError),
        (1044, SettingsError),
        (1142, SettingsError),
        (1153, RecordTooLarge),
        (1406, ResourceManagerError),
        (1401, ResourceManagerError),
        (0, ResourceManagerError),
    ],
)
def test_mysql_codes(code, kind):
    found = mysql_session.classify(code, "said so", WHERE, "counter")
    assert type(found) is kind
    assert str(found).startswith(f"{WHERE}: said so ({code})")


@pytest.mark.parametrize("code", [1401, 1227])
def test_mysql_8_without_the_privilege_to_list_prepared_transactions(code):
    found = mysql_session.classify(code, "XAER_RMERR", "mysql at db:3306, database shop: xa recover", "counter")
    assert type(found) is SettingsError
    assert "grant xa_recover_admin on *.* to 'counter'" in str(found)


@pytest.mark.parametrize(
    ("raised", "kind", "says"),
    [
        (
            RuntimeError("'pynacl' package is required for ed25519_password auth method"),
            SettingsError,
            f"{WHERE}: 'pynacl' package is required for ed25519_password auth method. Run: pip install pynacl",
        ),
        (
            IndexError("bytearray index"),
            ResourceManagerError,
            f"{WHERE}: the driver failed: IndexError: bytearray index",
        ),
    ],
)
def test_what_a_driver_raises_outside_its_own_errors(raised, kind, says):
    found = outside_its_errors(raised, WHERE)
    assert (type(found), str(found)) == (kind, says)


class Answer(psycopg.Error):
    """A server's error with a code, as the driver raises it."""

    def __init__(self, code: str, text: str = "said so") -> None:
        super().__init__(text)
        self.sqlstate = code


@pytest.mark.parametrize(
    ("code", "deed", "kind"),
    [
        ("42704", "commit prepared", NoSuchBranch),
        ("42704", "select", ResourceManagerError),
        ("55000", "rollback prepared", BranchBusy),
        ("55000", "prepare transaction", SettingsError),
        ("55P03", "write to 't'", LockTimeout),
        ("40P01", "write to 't'", LockTimeout),
        ("40001", "commit", LockTimeout),
        ("23505", "insert", DuplicateKey),
        ("57P01", "select", Unreachable),
        ("53300", "connect", Unreachable),
        ("08006", "select", Unreachable),
        ("28P01", "connect", SettingsError),
        ("42501", "insert", SettingsError),
        ("3D000", "connect", SettingsError),
        ("22001", "write to 't'", ResourceManagerError),
    ],
)
def test_postgres_codes(code, deed, kind):
    found = postgres_session.classify(Answer(code), f"postgres at db:5432, database shop: {deed}", "counter")
    assert type(found) is kind
    assert f"{deed}: said so ({code})" in str(found).replace("; ", " ")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("connection failed: Connection refused", Unreachable),
        ("connection failed: FATAL:  the database system is starting up", Unreachable),
        ("connection failed: FATAL:  sorry, too many clients already", Unreachable),
        ("connection failed: FATAL:  password authentication failed for user", SettingsError),
        ('connection failed: FATAL:  no pg_hba.conf entry for host "::1"', SettingsError),
        ("no answer in 5 s", Unreachable),
        ("server closed the connection unexpectedly\n\tThis probably means …", Unreachable),
    ],
)
def test_postgres_connections_that_are_refused_without_a_code(text, kind):
    found = postgres_session.classify(psycopg.OperationalError(text), "postgres at db:5432", "counter")
    assert type(found) is kind
    assert "\n" not in str(found)
