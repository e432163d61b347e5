"""Where Flink's high-availability stores are: ``--flink-store``, ``--flink-store-properties``."""

from __future__ import annotations

from pathlib import Path

import pytest

from indoubt.collector.config.flink_store import ConfigMapsAddress, StoreAddress, read_flink_stores
from indoubt.lifecycle.errors import SettingsError

SHOP = "shop=zookeeper://zk1:2181,zk2:2181/flink/orders"


def properties(directory: Path, *lines: str) -> list[str]:
    """Return the option that gives a file of these lines."""
    file = directory / "zookeeper.properties"
    file.write_text("\n".join(lines))
    return [f"shop={file}"]


@pytest.mark.parametrize("text", [SHOP, f"{SHOP}/"])
def test_an_address_has_hosts_and_the_path_of_the_cluster(text: str) -> None:
    assert read_flink_stores([text], [], {"shop"}) == {
        "shop": StoreAddress(hosts="zk1:2181,zk2:2181", path="/flink/orders")
    }


def test_config_maps_have_a_namespace_and_the_name_of_the_cluster() -> None:
    found = read_flink_stores(["shop=kubernetes://streams/orders-2"], [], {"shop"})
    assert found == {"shop": ConfigMapsAddress(namespace="streams", cluster_id="orders-2")}
    assert found["shop"].where == "streams/orders-2"


@pytest.mark.parametrize(
    "text",
    [
        "zookeeper://zk1:2181/flink",
        "shop=zk1:2181/flink",
        "shop=zookeeper://zk1:2181",
        "shop=zookeeper://zk1:2181/",
        "shop=zookeeper:///flink/orders",
        "shop=zookeeper://zk1:2181,/flink/orders",
        "shop=zookeeper://anna:secret@zk1:2181/flink/orders",
        "shop=http://zk1:2181/flink/orders",
        "kubernetes://streams/orders",
        "shop=kubernetes://streams",
        "shop=kubernetes:///orders",
        "shop=kubernetes://streams/orders,app=x",
        "shop=kubernetes://streams/a/b",
    ],
)
def test_another_address_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(
        SettingsError, match=r"takes NAME=zookeeper://HOST:PORT.* or NAME=kubernetes://NAMESPACE/CLUSTER"
    ) as refused:
        read_flink_stores([text], [], {"shop"})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "of", "message"),
    [
        ([SHOP, SHOP], [], "--flink-store shop is given twice"),
        ([SHOP.replace("shop", "eu")], [], "--flink-store eu names no cluster"),
        ([SHOP], ["eu=FILE"], "--flink-store-properties eu names no store in ZooKeeper"),
        (
            ["shop=kubernetes://streams/orders"],
            ["shop=FILE"],
            "--flink-store-properties shop names no store in ZooKeeper",
        ),
        ([SHOP], ["shop=FILE", "shop=FILE"], "--flink-store-properties shop is given twice"),
        ([SHOP], ["FILE"], "takes NAME=FILE"),
    ],
)
def test_names_go_together(tmp_path: Path, given: list[str], of: list[str], message: str) -> None:
    file = tmp_path / "empty.properties"
    file.touch()
    with pytest.raises(SettingsError, match=message):
        read_flink_stores(given, [each.replace("FILE", str(file)) for each in of], {"shop"})


def test_a_file_gives_authority_and_login(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.touch()
    lines = [f"{name}.location={pem}" for name in ("ca", "certificate", "key")]
    given = properties(tmp_path, *lines, "key.password=pass", "username=anna", "password=secret")
    access = read_flink_stores([SHOP], given, {"shop"})["shop"].access
    assert access is not None
    assert access.login == "anna:secret"
    files = dict.fromkeys(("ca", "certfile", "keyfile"), str(pem))
    assert access.tls() == {"use_ssl": True, "check_hostname": True, "keyfile_password": "pass", **files}
    assert "secret" not in repr(access)


def test_without_them_it_takes_neither(tmp_path: Path) -> None:
    access = read_flink_stores([SHOP], properties(tmp_path, "# none"), {"shop"})["shop"].access
    assert access is not None
    assert (access.login, access.tls()) == ("", {})


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["user=anna"], "line 1: property 'user' is unknown"),
        (["username=anna", "username=ben"], "line 2: username is given twice"),
        (["username="], "line 1: username is empty"),
        (["username=anna"], "password is missing; username needs it"),
        (["password=secret"], "username is missing; password needs it"),
        (["ca.location=/nowhere"], "line 1: ca.location names no file"),
        (["certificate.location=PEM", "ca.location=PEM"], "key.location is missing"),
        (["certificate.location=PEM", "key.location=PEM"], "ca.location is missing"),
        (["key.password=secret"], "key.location is missing; key.password needs it"),
    ],
)
def test_a_wrong_file_is_refused_and_its_values_are_not_shown(tmp_path: Path, lines: list[str], message: str) -> None:
    pem = tmp_path / "ca.pem"
    pem.touch()
    with pytest.raises(SettingsError, match=message) as refused:
        read_flink_stores([SHOP], properties(tmp_path, *(line.replace("PEM", str(pem)) for line in lines)), {"shop"})
    assert "secret" not in str(refused.value)


def test_without_its_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indoubt.collector.config.flink_store.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="install indoubt with the extra 'zookeeper'"):
        read_flink_stores([SHOP], [], {"shop"})
    assert read_flink_stores(["shop=kubernetes://streams/orders"], [], {"shop"}), "its API needs none"
