"""Sign-in by a trusted proxy: a real app process, asked from the proxy's address and from others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.app_process import HANDSHAKE, HEALTH, STREAM, asked, running_app

pytestmark = pytest.mark.integration
PROXY, ANOTHER = "127.0.0.2", "127.0.0.3"
CARLA = {"X-Forwarded-User": "carla", "X-Forwarded-Groups": "staff, oncall"}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    options = ["--trusted-proxy", PROXY, "--operator-group", "oncall", "--viewer-group", "staff"]
    with running_app(Path(tmp_path_factory.mktemp("app")), *options) as running:
        yield running


def answered(port: int, source: str = PROXY, path: str = "/", **headers: str | list[str]) -> int:
    return asked(port, path, f"127.0.0.1:{port}", source, **headers)


def test_whom_the_proxy_names_is_let_in(port):
    assert answered(port, **CARLA) == 200
    for path in (STREAM, "/live/frame"):
        assert answered(port, path=path, **HANDSHAKE, **CARLA) == 101


@pytest.mark.parametrize("source", ["127.0.0.1", ANOTHER])
def test_nobody_else_is_believed(port, source):
    """X-Forwarded-For is a claim as well: uvicorn by itself would believe it from this machine."""
    for claims in (
        CARLA,
        {**CARLA, "X-Forwarded-For": PROXY},
        {"X-Indoubt-Person": "carla", "X-Indoubt-Role": "operator"},
    ):
        assert answered(port, source, **claims) == 401
        assert answered(port, source, STREAM, **HANDSHAKE, **claims) == 403
        assert answered(port, source, "/live/frame", **HANDSHAKE, **claims) == 403
    assert answered(port, source, HEALTH) == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X-Forwarded-User": "carla"}, 403),
        ({"X-Forwarded-User": "carla", "X-Forwarded-Groups": "guests"}, 403),
        ({"X-Forwarded-User": "", "X-Forwarded-Groups": "oncall"}, 401),
        ({"X-Forwarded-User": ["mallory", "carla"], "X-Forwarded-Groups": "oncall"}, 401),
        ({"X-Forwarded-User": "mallory", "X-Forwarded-Groups": ["oncall", "guests"]}, 401),
    ],
)
def test_half_a_person_or_two_are_refused(port, headers, status):
    assert answered(port, **headers) == status
    assert answered(port, path=STREAM, **HANDSHAKE, **headers) == 403
