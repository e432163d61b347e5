"""Flink's REST API behind TLS, with a client certificate or behind a proxy that wants a login: on a real https server."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from indoubt.collector.config import settings
from indoubt.collector.history.store import Store
from indoubt.collector.observe.flink_rest import FlinkRest
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable
from tests.unit.collector.flink_recordings import CLUSTER, FIRST_JOB
from tests.unit.collector.observe.tls_flink import Authority, TlsFlink

PASSWORD = "correct-horse"
BASIC = "Basic " + base64.b64encode(f"anna:{PASSWORD}".encode()).decode()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def observer(current: CurrentState, store: Store, tmp_path: Path) -> Callable[..., FlinkRest]:
    """Return what makes the observer of a URL and properties (``_`` for dots), as the collector's settings do."""
    return partial(make_observer, current, store, tmp_path)


def make_observer(current: CurrentState, store: Store, directory: Path, url: str, **properties: object) -> FlinkRest:
    file = directory / "flink.properties"
    file.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in properties.items()))
    given = ["--bootstrap-servers", "a:1", "--directory", "d", "--flink", f"{CLUSTER}={url}"]
    read = settings.read([*given, "--flink-properties", f"{CLUSTER}={file}"], {})
    assert PASSWORD not in repr(read)
    return FlinkRest(
        current,
        store,
        CLUSTER,
        read.flink[CLUSTER],
        access=read.flink_access[CLUSTER],
        interval_ms=1,
    )


def poll(found: FlinkRest) -> None:
    with found.http() as http:
        found.poll(http)


def jobs(current: CurrentState) -> list[str]:
    return [facts.job.job for facts in current.jobs()]


@pytest.mark.parametrize("password", ["", PASSWORD])
def test_a_client_certificate_opens_mutual_tls(
    authority: Authority, current: CurrentState, observer: Callable[..., FlinkRest], password: str
) -> None:
    certificate, key = authority.issue("client", password)
    more = {"key_password": password} if password else {}
    with TlsFlink(authority, client_ca=authority.ca) as flink:
        files = {"ca_location": authority.ca, "certificate_location": certificate, "key_location": key, **more}
        poll(observer(flink.url, **files))
        assert jobs(current) == [FIRST_JOB]
        with pytest.raises(Unreachable, match=r"(?i)certificate.required|EOF|reset|disconnected|alert"):
            poll(observer(flink.url, ca_location=authority.ca))


def test_a_server_of_another_authority_is_not_believed(
    authority: Authority, current: CurrentState, tmp_path: Path, observer: Callable[..., FlinkRest]
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    with TlsFlink(authority) as flink, pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        poll(observer(flink.url, ca_location=other.ca))
    assert jobs(current) == []


@pytest.mark.parametrize(
    ("authorization", "login"),
    [(BASIC, {"username": "anna", "password": PASSWORD}), (f"Bearer {PASSWORD}", {"bearer_token": PASSWORD})],
    ids=["basic", "bearer"],
)
def test_a_proxy_lets_the_login_through(
    authority: Authority,
    current: CurrentState,
    observer: Callable[..., FlinkRest],
    authorization: str,
    login: dict[str, str],
) -> None:
    with TlsFlink(authority, authorization=authorization) as flink:
        poll(observer(flink.url, ca_location=authority.ca, **login))
    assert jobs(current) == [FIRST_JOB]


def test_a_refused_login_is_named_and_not_shown(
    authority: Authority, observer: Callable[..., FlinkRest], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with TlsFlink(authority, authorization=BASIC) as flink:
        wrong = observer(flink.url, ca_location=authority.ca, bearer_token="wrong-horse")
        with pytest.raises(
            ResourceManagerError, match=r"answered 401: check the login in .*flink\.properties"
        ) as refused:
            poll(wrong)
    assert "wrong-horse" not in str(refused.value)
    assert "wrong-horse" not in caplog.text
    assert "wrong-horse" not in repr(wrong.__dict__)
