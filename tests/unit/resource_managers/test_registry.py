"""Each kind of resource manager has one entry, and an unknown one is refused with the place where it stood."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import DATABASES, KAFKA, KINDS, MYSQL, POSTGRES, kind_named
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.database.resource_manager import DatabaseResourceManager
from indoubt.resource_managers.kafka.connection import KafkaConnection
from indoubt.resource_managers.registry import implementation, make_database_resource_manager, make_resource_manager

BROKER = KafkaConnection("localhost:9092")
CONNECTIONS = {
    name: DatabaseConnection(kind=name, host="localhost", user="shop", database="shop") for name in DATABASES
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_makes_the_class_of_its_name(kind):
    assert implementation(kind).name == kind.name
    made = make_resource_manager(kind.name, "counts", BROKER, CONNECTIONS, {})
    assert type(made) is implementation(kind)
    assert isinstance(made, DatabaseResourceManager) is kind.is_database


@pytest.mark.parametrize("kind", DATABASES.values(), ids=DATABASES)
def test_a_database_has_its_port_its_password_and_its_statements(kind):
    assert CONNECTIONS[kind.name].port == kind.default_port > 0
    assert kind.password_variable == f"INDOUBT_{kind.name.upper()}_PASSWORD"
    assert kind.commit_sends != kind.abort_sends
    assert make_database_resource_manager(CONNECTIONS[kind.name]).name == kind.name


def test_a_prefix_is_as_long_as_the_narrowest_name_takes():
    long = "p" * 60
    assert KAFKA.check_prefix(long) == POSTGRES.check_prefix(long) == long
    with pytest.raises(SettingsError, match="38"):
        MYSQL.check_prefix(long)


def test_an_unknown_kind_is_refused_with_place_and_known_kinds():
    with pytest.raises(
        SettingsError, match=r"sink oracle:counts: .*'oracle' is unknown; known are: kafka, mysql, postgres, files"
    ):
        make_resource_manager("oracle", "counts", BROKER, CONNECTIONS, {})
    with pytest.raises(SettingsError, match=r"connection to db\.example: .*'oracle'.*known are: mysql, postgres$"):
        DatabaseConnection(kind="oracle", host="db.example", user="shop", database="shop")
    with pytest.raises(SettingsError, match=r"here: .*'kafka' is unknown; known are: mysql, postgres$"):
        kind_named("kafka", "here", DATABASES)


def test_a_sink_without_a_connection_is_refused():
    with pytest.raises(SettingsError, match=r"no setting says how to reach 'mysql' \(sink mysql:counts\)"):
        make_resource_manager("mysql", "counts", BROKER, {}, {})
