"""A collector finds Flink clusters by the resources of Flink's operator, and lets go of those that are deleted.

The API's answers are written after the operator's published definitions (kubernetes_answers.py), Flink's are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from demo.broker import Broker
from tests.integration.collector_process import LIMIT_S, running
from tests.integration.kafka_fixtures import wait_until
from tests.integration.test_settings_read_again import jobs, watched
from tests.json_server import Answer, answering
from tests.unit.collector.flink_recordings import FIRST_JOB, recorded
from tests.unit.collector.kubernetes_answers import JOB, TOKEN, Kubernetes, deployment

pytestmark = pytest.mark.integration

REST = "http://orders-rest.streams:8081"


def flink(path: str, _: Mapping[str, str]) -> Answer:
    """Answer as the Service of the deployment ``orders``; a proxy is asked by whole addresses."""
    known = {
        f"{REST}/jobs/overview": recorded("first_jobs_overview"),
        f"{REST}/jobs/{FIRST_JOB}/checkpoints": recorded("first_checkpoints"),
    }
    return (200, known.get(path, [])) if path.startswith(REST) else (502, {})


def test_a_deployment_is_watched_until_it_is_deleted(broker: Broker, tmp_path: Path) -> None:
    credentials = tmp_path / "serviceaccount"
    credentials.mkdir()
    (credentials / "token").write_text(TOKEN)
    kubernetes = Kubernetes()
    kubernetes.resources["flinkdeployments"] = [deployment("orders", job=FIRST_JOB)]
    with kubernetes.serving() as url, answering(flink) as proxy:
        environment = {
            "INDOUBT_KUBERNETES_URL": url,
            "INDOUBT_KUBERNETES_CREDENTIALS": str(credentials),
            "INDOUBT_KUBERNETES_POLLING_MS": "200",
            "HTTP_PROXY": proxy,
            "http_proxy": proxy,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        words = ["--flink-kubernetes", "streams"]
        with running(broker.bootstrap_servers, tmp_path / "collector", words, environment) as collector:
            wait_until("its job is known", lambda: FIRST_JOB in jobs(collector), LIMIT_S)
            (row,) = collector.rows("jobs")
            assert (row["cluster"], row["pipeline"]) == ("streams.orders", "streams.orders/orders")
            assert collector.observer("kubernetes streams")["state"] == "up"

            kubernetes.resources["flinkdeployments"].append(deployment("second", job=JOB, lifecycle="CREATED"))
            names = {"flink streams.orders"}
            names |= {
                f"flink {what} of streams.{of}" for what in ("checkpoints", "files") for of in ("orders", "second")
            }
            wait_until("one that has not begun is not asked", lambda: set(watched(collector)) == names, LIMIT_S)

            kubernetes.resources["flinkdeployments"] = []
            wait_until("none is watched", lambda: not watched(collector), LIMIT_S)
            assert FIRST_JOB in jobs(collector), "what is known stays"

            kubernetes.forbidden = {"flinkdeployments"}
            seen = wait_until(
                "it says why it finds none",
                lambda: (told := collector.observer("kubernetes streams"))["state"] == "down" and told,
                LIMIT_S,
            )
            assert "it needs a Role with the verb list on flinkdeployments" in seen["error"]
