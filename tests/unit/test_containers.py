"""docker-compose.yml and its Dockerfile: what must outlive a container does, nobody is root, and stops are given their time."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from indoubt.app.__main__ import check_host, command_line
from indoubt.pipeline.config.settings import ROOT
from indoubt.pipeline.runtime.status_file import StatusFile
from indoubt.pipeline.supervision import supervisor

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "demo" / "Dockerfile").read_text()
DATA = {"broker": "/var/lib/kafka/data", "pipeline": "/checkpoints", "collector": "/history"}
"""Where each service keeps what a new container must find again. Each is of no use without the others."""


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)s", text)
    assert found, text
    return float(found[1])


def option(service: str, name: str) -> str:
    """Return the value of an option in a service's command."""
    words = shlex.split(SERVICES[service]["command"])
    return words[words.index(name) + 1]


@pytest.mark.parametrize("service", DATA)
def test_what_a_service_keeps_is_in_a_volume_with_a_name(service):
    volumes = dict(reversed(text.split(":")[:2]) for text in SERVICES[service]["volumes"] if not text.endswith(":ro"))
    assert volumes[DATA[service]] in COMPOSE["volumes"]


def test_each_service_writes_where_its_volume_is():
    assert SERVICES["broker"]["environment"]["KAFKA_LOG_DIRS"] == DATA["broker"]
    assert SERVICES["broker"]["environment"]["CLUSTER_ID"], "a new container must take the volume for its own"
    assert option("pipeline", "--checkpoint").startswith(DATA["pipeline"] + "/")
    assert option("collector", "--directory") == DATA["collector"]


@pytest.mark.parametrize("service", [*DATA, "app"])
def test_a_service_says_whether_it_is_well(service):
    assert SERVICES[service]["healthcheck"]["test"][0] == "CMD"


def test_the_pipeline_is_well_while_its_query_runs(tmp_path):
    file = tmp_path / "status.json"
    command, *_, pattern, path = SERVICES["pipeline"]["healthcheck"]["test"][1:]
    assert (command, path) == ("grep", option("pipeline", "--status-file"))
    StatusFile(str(file)).update(state="running", restarts=0)
    assert pattern in file.read_text()
    StatusFile(str(file)).update(state="restarting")
    assert pattern not in file.read_text()


@pytest.mark.parametrize("service", SERVICES)
def test_nobody_is_root(service):
    user = SERVICES[service]["user"]
    assert user not in ("", "root", "0", "0:0")
    if SERVICES[service]["image"] == "indoubt-demo":
        assert f"USER {user}" == DOCKERFILE.rstrip().rsplit("\n", 1)[1], "the image by itself is no other"


def test_a_new_volume_belongs_to_who_writes_into_it():
    made = re.search(r"install --directory --owner=indoubt --group=indoubt (.+)", DOCKERFILE)
    assert made is not None
    assert set(made[1].split()) == {DATA["pipeline"], DATA["collector"]}
    (user,) = {service["user"] for service in SERVICES.values() if service["image"] == "indoubt-demo"}
    uid, gid = user.split(":")
    assert f"groupadd --gid {gid} indoubt" in DOCKERFILE
    assert f"useradd --uid {uid} --gid {gid} " in DOCKERFILE


def test_a_stop_is_given_the_time_that_it_may_take():
    grace = {name: seconds(SERVICES[name].get("stop_grace_period", "10s")) for name in SERVICES}
    assert grace["pipeline"] > supervisor.LONGEST_STOP_S
    assert grace["broker"] > 30
    assert "broker" in SERVICES["pipeline"]["depends_on"], "the broker is stopped after it"
    assert "restart" not in SERVICES["pipeline"], "it would supersede a pipeline that superseded it"


def test_the_app_may_listen_as_it_is_set_to():
    given = command_line().parse_args(shlex.split(SERVICES["app"]["command"])[2:])
    check_host(given.host, given.sign_in_by_proxy, None)
    for service in ("app", "collector"):
        assert all(port.startswith("127.0.0.1:") for port in SERVICES[service]["ports"]), "nobody else reaches it"
