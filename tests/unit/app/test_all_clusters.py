"""The look at all clusters, and which collector is asked for the pages of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
from streamlit.testing.v1 import AppTest

from demo.ports import free_port
from indoubt.app import palette
from indoubt.app.client.all_clusters import AllClusters
from indoubt.app.client.collector_client import CollectorClient
from indoubt.app.components import shown_cluster
from indoubt.app.components.links_and_buttons import AskOrder, link, order_button, read_click
from indoubt.app.regions.region_server import RegionServers
from indoubt.app.screens import clusters as all_clusters
from indoubt.app.screens import live_regions
from indoubt.app.settings import COLLECTOR_URL, Settings
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Action
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_rows import batch, now_ms
from tests.unit.app.contract_server import ContractServer
from tests.unit.app.page_driver import answering, said
from tests.unit.app.region_in_streamlit import clickables


@dataclass(frozen=True, slots=True)
class Two:
    """Two collectors that know transactions of the same keys, and a third that is gone."""

    eu: Answers
    us: Answers
    settings: dict[str, Settings]


def settings_of(**urls: str) -> dict[str, Settings]:
    named = ",".join(f"{name}={url}" for name, url in urls.items())
    return Settings.by_cluster({COLLECTOR_URL: named, "INDOUBT_TOKEN": TOKEN})


@pytest.fixture
def two() -> Iterator[Two]:
    eu, us = Answers(transactions=batch(), cluster_name="eu"), Answers(transactions=batch(), cluster_name="us")
    with ContractServer(eu) as of_eu, ContractServer(us) as of_us:
        gone = f"http://127.0.0.1:{free_port()}"
        yield Two(eu, us, settings_of(eu=of_eu.url, us=of_us.url, gone=gone))


def test_one_that_does_not_answer_is_said_since_when_and_holds_up_none(two: Two) -> None:
    clusters = AllClusters({name: CollectorClient(each) for name, each in two.settings.items()})
    first = clusters.look()
    assert {name: bool(look.overview) for name, look in first.items()} == {"eu": True, "us": True, "gone": False}
    assert first["gone"].lost == "The collector does not answer"
    clusters.forget()
    again = clusters.look()
    assert again["gone"].since_ms == first["gone"].since_ms
    two.us.loading = True
    assert clusters.look() == again, "of one picture"
    clusters.forget()
    assert clusters.look()["us"].overview is None
    clusters.close()


def test_it_is_green_only_where_all_is_well_in_every_cluster(two: Two) -> None:
    for answers in (two.eu, two.us):
        answers.transactions = batch(state="open", verdict="in progress", may_commit=False)
    clusters = AllClusters({name: CollectorClient(two.settings[name]) for name in ("eu", "us")})
    assert "✔ Nothing needs you in 2 clusters." in str(all_clusters.render(clusters, {})["headline"])
    silent = {"silent_since_ms": now_ms() - 13_000, "counted_after_ms": 30_000, "restart": None}
    two.us.awaited = [{"pipeline": "ip-count", **silent}]
    clusters.forget()
    headline = str(all_clusters.render(clusters, {})["headline"])
    assert "△ Nothing needs you in 2 clusters now, but not all is well." in headline
    assert "✔" not in headline
    clusters.close()


def test_a_region_is_rendered_by_the_cluster_of_its_address_alone(two: Two) -> None:
    servers = RegionServers(two.settings, live_regions.REGIONS, live_regions.OF_ALL)
    eu, us = (servers.find("pending", {"cluster": name}) for name in ("eu", "us"))
    assert None not in (eu, us)
    assert eu is not us
    assert servers.find("pending", {}) is None
    assert servers.find("pending", {"cluster": "nowhere"}) is None
    assert servers.find("clusters", {}) is not None
    assert servers.find("clusters", {"cluster": "eu"}) is None
    only = RegionServers({"": two.settings["eu"]}, live_regions.REGIONS, live_regions.OF_ALL)
    assert only.find("pending", {}) is only.find("pending", {"cluster": "eu"}) is not None
    named = RegionServers({"eu": two.settings["eu"]}, live_regions.REGIONS, live_regions.OF_ALL)
    assert named.find("pending", {}) is named.find("pending", {"cluster": "eu"}) is not None
    assert named.find("pending", {"cluster": "us"}) is None


def test_links_and_buttons_are_of_the_cluster_that_is_rendered() -> None:
    with shown_cluster.rendering("eu"):
        assert 'href="/pipeline?name=a&amp;cluster=eu"' in link("/pipeline?name=a", "a")
        assert 'href="/readers?cluster=us"' in link("/readers?cluster=us", "us"), "it names its own"
        ((_, attributes),) = clickables(order_button("Commit", Action.COMMIT, "transactions", ["k"]))
    asked = AskOrder(action=Action.COMMIT, subject="transactions", keys=("k",), cluster="eu")
    assert read_click(attributes["data-click"] or "") == asked
    ((_, attributes),) = clickables(order_button("Commit", Action.COMMIT, "transactions", ["k"]))
    assert read_click(attributes["data-click"] or "") == replace(asked, cluster="")
    assert 'href="/pipeline"' in link("/pipeline", "a")


def page_of(name: str, then: str) -> None:
    import streamlit as st

    from indoubt.app import live
    from indoubt.app.client.collector_errors import CollectorError
    from indoubt.app.components import shown_cluster

    shown_cluster.begin_page(name)
    st.query_params["cluster"] = then
    try:
        st.html(live.collector().cluster or "the only one")
    except CollectorError as error:
        st.html(f"refused: {error}")


@pytest.mark.parametrize(
    ("name", "then", "asked"),
    [
        ("eu", "eu", "eu"),
        ("us", "us", "us"),
        ("eu", "us", "refused: this page shows another cluster now"),
        ("nowhere", "nowhere", "refused: these pages show no cluster 'nowhere', but eu, us, gone"),
    ],
)
@pytest.mark.slow
def test_a_page_asks_the_collector_of_its_cluster_or_none(
    two: Two, monkeypatch: pytest.MonkeyPatch, name: str, then: str, asked: str
) -> None:
    with answering(Answers(), monkeypatch):
        monkeypatch.setenv(COLLECTOR_URL, ",".join(f"{n}={each.collector_url}" for n, each in two.settings.items()))
        page = AppTest.from_function(page_of, kwargs={"name": name, "then": then}).run()
        assert not page.exception
        assert said(page) == asked


def test_the_palette_offers_the_other_clusters_as_places() -> None:
    names = ["eu", "us"]
    assert [one.text for one in palette.clusters(names, "eu", "")] == ["us", "All clusters"]
    assert [one.text for one in palette.clusters(names, "", "u")] == ["us", "eu"]
    assert palette.clusters(["eu"], "eu", "") == []


def test_a_request_names_its_cluster(two: Two) -> None:
    with ExitStack() as closing:
        client = CollectorClient(two.settings["eu"])
        closing.callback(client.close)
        assert client.status().cluster_name == "eu"
        assert two.eu.clusters_asked == {"eu"}
        nameless = CollectorClient(Settings.from_environment({COLLECTOR_URL: client.address, "INDOUBT_TOKEN": TOKEN}))
        closing.callback(nameless.close)
        nameless.status()
        assert two.eu.clusters_asked == {"eu", ""}


def test_a_file_of_a_token_may_be_of_one_cluster(tmp_path) -> None:
    for name in ("eu", "us", "all"):
        (tmp_path / name).write_text(f"token-of-{name}")
    urls = "eu=http://127.0.0.1:1,us=http://127.0.0.1:2"
    each = Settings.by_cluster({COLLECTOR_URL: urls, "INDOUBT_TOKEN_FILE": f"eu={tmp_path}/eu,us={tmp_path}/us"})
    assert [settings.token() for settings in each.values()] == ["token-of-eu", "token-of-us"]
    same = Settings.by_cluster({COLLECTOR_URL: urls, "INDOUBT_TOKEN_FILE": f"{tmp_path}/all"})
    assert [settings.token() for settings in same.values()] == ["token-of-all", "token-of-all"]
    with pytest.raises(SettingsError, match="one address to two clusters"):
        Settings.by_cluster({COLLECTOR_URL: "eu=http://h:1,us=http://h:1", "INDOUBT_TOKEN": "x"})
