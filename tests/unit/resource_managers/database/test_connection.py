"""Database properties: read from a file, checked, and never shown with their password."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.database.connection import DatabaseConnection, read_database_properties

MYSQL = DatabaseConnection(kind="mysql", host="db", user="u", database="d", password="geheim")


def properties(tmp_path, *lines):
    file = tmp_path / "database.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_both_databases_from_one_file(tmp_path):
    file = properties(
        tmp_path,
        "# where the counts go",
        "mysql.host = db1",
        "mysql.port=3307",
        "mysql.user=counter",
        "mysql.password=a=b",
        "mysql.database=shop",
        "",
        "postgres.host=db2",
        "postgres.user=counter",
        "postgres.database=shop",
        "postgres.tls=verify",
    )
    found = read_database_properties(file, {})
    assert found["mysql"] == DatabaseConnection(
        kind="mysql", host="db1", port=3307, user="counter", password="a=b", database="shop"
    )
    assert (found["postgres"].port, found["postgres"].password, found["postgres"].tls) == (5432, "", "verify")


def test_the_environment_wins_over_the_file(tmp_path):
    file = properties(tmp_path, "mysql.host=h", "mysql.user=u", "mysql.password=file", "mysql.database=d")
    found = read_database_properties(file, {"INDOUBT_MYSQL_PASSWORD": "environment", "INDOUBT_POSTGRES_PASSWORD": "x"})
    assert found["mysql"].password == "environment"
    assert list(found) == ["mysql"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["mysql.host"], "line 1: not key=value"),
        (["", "oracle.host=h"], r"line 2: property 'oracle\.host' is unknown; known are mysql\.\*, postgres\.\*"),
        (["mysql.hots=h"], r"'mysql\.hots' is unknown.*host, user"),
        (["mysql=h"], "property 'mysql' is unknown"),
        (["mysql.kind=h"], r"'mysql\.kind' is unknown"),
        (["mysql.port=x"], r"mysql\.port is 'x'; it takes a number"),
        (["mysql.host=h", "mysql.user=u"], r"mysql\.database is missing"),
        (["mysql.host=h", "mysql.user=u", "mysql.database=d", "mysql.port=70000"], r"mysql\.port is 70000"),
        (["mysql.host=h", "mysql.user=u", "mysql.database=d", "mysql.tls=on"], r"mysql\.tls is 'on'; it takes one of"),
    ],
)
def test_errors_name_the_property(tmp_path, lines, message):
    with pytest.raises(SettingsError, match=message):
        read_database_properties(properties(tmp_path, *lines), {})


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.properties cannot be read: No such file"):
        read_database_properties(tmp_path / "none.properties", {})


def test_the_password_is_never_shown():
    assert "geheim" not in repr(MYSQL) + str(MYSQL) + MYSQL.address
    assert "geheim" in MYSQL.to_json(), "it must travel to the tasks"


def test_json_and_back_and_hashable():
    assert DatabaseConnection.from_json(MYSQL.to_json()) == MYSQL
    assert len({MYSQL, DatabaseConnection.from_json(MYSQL.to_json())}) == 1


def test_an_unknown_kind_is_refused():
    with pytest.raises(SettingsError, match="'oracle' is unknown; known are: mysql, postgres"):
        DatabaseConnection(kind="oracle", host="h", user="u", database="d")
