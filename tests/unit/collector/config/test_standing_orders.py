"""The file of standing orders: what it takes, and how each mistake in it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.collector.config import settings, standing_orders
from indoubt.collector.config.standing_orders import StandingOrder, StandingOrders
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Action

COMMIT = """
[[order]]
name = "save"
act = "commit"
applications = ["orders", "eu/clicks"]
less_than_s_left = 20
driver_gone = true
most_per_hour = 50
dry_run = false
"""
ABORT = """
[[order]]
name = "clear"
act = "abort"
applications = ["*"]
older_than_minutes = 10
most_per_hour = 5
"""
OWNER = 'owner = "anna"\n'


def written(directory: Path, text: str, mode: int = 0o600) -> str:
    file = directory / "standing.toml"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_without_a_file_there_are_none() -> None:
    assert standing_orders.read("") == StandingOrders()


def test_a_file_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, OWNER + COMMIT + ABORT)
    assert standing_orders.read(file) == StandingOrders(
        file=file,
        owner="anna",
        orders=(
            StandingOrder(
                name="save",
                act=Action.COMMIT,
                applications=frozenset({"orders", "eu/clicks"}),
                most_per_hour=50,
                less_than_s_left=20,
                driver_gone=True,
                dry_run=False,
            ),
            StandingOrder(
                name="clear",
                act=Action.ABORT,
                applications=frozenset({"*"}),
                most_per_hour=5,
                older_than_minutes=10,
                dry_run=True,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("names", "covered"), [(["*"], True), (["orders"], True), (["order"], False), (["Orders"], False)]
)
def test_an_application_is_covered_by_its_whole_name_alone(names: list[str], covered: bool) -> None:
    order = StandingOrder(name="o", act=Action.COMMIT, applications=frozenset(names), most_per_hour=1)
    assert order.covers("orders") is covered


def test_flag_and_variable_name_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, OWNER + COMMIT)
    needed = ["--bootstrap-servers", "127.0.0.1:9092", "--directory", "d"]
    assert settings.read([*needed, "--standing-orders", file], {}).standing_orders.owner == "anna"
    assert settings.read(needed, {"INDOUBT_STANDING_ORDERS": file}).standing_orders.file == file
    with pytest.raises(SettingsError, match=r"/nowhere cannot be read: No such file"):
        settings.read([*needed, "--standing-orders", "/nowhere"], {"INDOUBT_STANDING_ORDERS": file})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("owner = ", "is not TOML"),
        (COMMIT, "'owner' is missing: name the person who answers"),
        ('owner = ""\n' + COMMIT, "'owner' is ''"),
        ('owner = "an\\nna"\n' + COMMIT, "'owner' is 'an\\nna'"),
        (OWNER, "it has no [[order]]"),
        (OWNER + "order = 3", "it has no [[order]]"),
        (OWNER + "rules = 1" + COMMIT, "'rules' is not known"),
        (OWNER + COMMIT.replace('name = "save"', ""), "order 1: 'name' is missing"),
        (OWNER + COMMIT + COMMIT, "two orders are named 'save'"),
        (OWNER + COMMIT + "applicaton = 1", "order 'save' has no field 'applicaton'"),
        (OWNER + COMMIT.replace('"commit"', '"restart"'), "'act' is 'restart'; it takes commit or abort"),
        (OWNER + COMMIT.replace('act = "commit"', ""), "'act' is None"),
        (OWNER + COMMIT.replace('["orders", "eu/clicks"]', "[]"), "'applications' is []"),
        (OWNER + COMMIT.replace('["orders", "eu/clicks"]', '"orders"'), "'applications' is 'orders'; it takes a list"),
        (OWNER + COMMIT.replace('"orders"', '"ord*"'), "'applications' has 'ord*'; it takes whole names"),
        (OWNER + COMMIT.replace('"orders"', '" "'), "'applications' has ' '"),
        (OWNER + COMMIT.replace('"orders"', '"*"'), "'applications' has '*' beside names"),
        (OWNER + ABORT.replace('applications = ["*"]', ""), "'applications' is None"),
        (OWNER + COMMIT.replace("most_per_hour = 50", ""), "lacks 'most_per_hour'"),
        (OWNER + COMMIT.replace("= 50", "= 0"), "'most_per_hour' is 0; it takes a whole number from 1 to 1000"),
        (OWNER + COMMIT.replace("= 50", "= true"), "'most_per_hour' is True"),
        (OWNER + COMMIT.replace("= 20", "= 86401"), "'less_than_s_left' is 86401; it takes a whole number from 1 to 86400"),
        (OWNER + COMMIT.replace("= 20", '= "20"'), "'less_than_s_left' is '20'"),
        (OWNER + COMMIT.replace("= true", "= 1"), "'driver_gone' is 1; it takes true or false"),
        (OWNER + COMMIT.replace("dry_run = false", 'dry_run = "no"'), "'dry_run' is 'no'"),
        (
            OWNER + COMMIT.replace("less_than_s_left = 20", "").replace("= true", "= false"),
            "does not say when: give 'less_than_s_left', 'driver_gone = true', or both",
        ),
        (OWNER + ABORT.replace("older_than_minutes = 10", ""), "does not say when: give 'older_than_minutes'"),
        (OWNER + ABORT + "driver_gone = true", "'driver_gone' goes with 'act = \"commit\"', not with 'abort'"),
        (OWNER + COMMIT + "older_than_minutes = 1", "'older_than_minutes' goes with 'act = \"abort\"'"),
    ],
)  # fmt: skip
def test_a_mistake_is_said(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SettingsError) as error:
        standing_orders.read(written(tmp_path, text))
    assert says in str(error.value)
    assert "standing.toml" in str(error.value)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SettingsError, match=r"may be written by others than its owner: chmod go-w"):
        standing_orders.read(written(tmp_path, OWNER + COMMIT, mode))
