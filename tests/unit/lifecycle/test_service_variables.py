"""Kubernetes' variables of a Service are no settings, and no setting has a name that could be one of them."""

from __future__ import annotations

import re

import pytest

from indoubt.app import settings as app_settings
from indoubt.collector.config import settings, variables
from indoubt.collector.config.variables import TunableSettings
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.settings_file import is_of_a_service
from indoubt.resource_managers.kafka.client_properties import TAKEN
from indoubt.resource_managers.kafka.connection import KafkaConnection

NEEDED = ["--bootstrap-servers", "127.0.0.1:9092", "--directory", "d"]


def service(name: str, address: str = "10.0.0.1") -> dict[str, str]:
    """Return what the kubelet puts into every pod for a Service with one named port (its own tests have the same)."""
    upper = name.upper().replace("-", "_")
    return {
        f"{upper}_SERVICE_HOST": address,
        f"{upper}_SERVICE_PORT": "8650",
        f"{upper}_SERVICE_PORT_HTTP_API": "8650",
        f"{upper}_PORT": f"tcp://{address}:8650",
        f"{upper}_PORT_8650_TCP": f"tcp://{address}:8650",
        f"{upper}_PORT_8650_TCP_PROTO": "tcp",
        f"{upper}_PORT_8650_TCP_PORT": "8650",
        f"{upper}_PORT_8650_TCP_ADDR": address,
    }


@pytest.mark.parametrize(
    "name", ["indoubt", "indoubt-collector", "indoubt-kafka", "indoubt-order-limit-ms", "indoubt-2"]
)
@pytest.mark.parametrize("address", ["10.0.0.1", "[fd00::1]"])
def test_a_service_of_any_name_sets_nothing(name: str, address: str) -> None:
    environment = service(name, address)
    assert settings.read(NEEDED, environment).tunable == TunableSettings()
    assert variables.unknown(environment) == set()
    assert KafkaConnection.from_environment(environment, "b:9092") == KafkaConnection("b:9092")
    read = app_settings.Settings.from_environment({**environment, "INDOUBT_TOKEN": "12345678"})
    assert read.collector_url == app_settings.DEFAULT_COLLECTOR_URL


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INDOUBT_PORT", "8650"),
        ("INDOUBT_PORT", ""),
        ("INDOUBT_HOST", "10.0.0.1"),
        ("INDOUBT_SERVICE", "tcp://10.0.0.1:8650"),
        ("INDOUBT_PORTS", "tcp://10.0.0.1:8650"),
        ("INDOUBT_PORT_HTTP", "8650"),
        ("INDOUBT_PORT_8650", "tcp://10.0.0.1:8650"),
    ],
)
def test_what_somebody_wrote_is_told_all_the_same(name: str, value: str) -> None:
    assert variables.unknown({name: value}) == {name}
    kafka = name.replace("INDOUBT_", "INDOUBT_KAFKA_")
    with pytest.raises(SettingsError, match="is unknown"):
        KafkaConnection.from_environment({kafka: value}, "b:9092")


def test_no_setting_is_named_like_a_variable_of_a_service() -> None:
    names = variables.known() | {f"INDOUBT_KAFKA_{name.upper().replace('.', '_')}" for name in TAKEN}
    assert {name for name in names if is_of_a_service(name, "tcp://10.0.0.1:8650")} == set()
    assert not [name for name in names if re.search(r"_PORT$", name)]
