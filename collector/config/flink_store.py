"""Where a Flink cluster's high-availability store is: ``--flink-store NAME=…``, in ZooKeeper or in ConfigMaps of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from indoubt.collector.config.flink_access import (
    CA,
    CERTIFICATE,
    KEY,
    KEY_PASSWORD,
    PAIRS,
    PASSWORD,
    USERNAME,
    require_pairs,
)
from indoubt.collector.config.named_locations import named, require_cluster
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.text_files import known_properties

OPTION, PROPERTIES_OPTION = "--flink-store", "--flink-store-properties"
_FILES = {CA: "ca", CERTIFICATE: "certfile", KEY: "keyfile"}
KEYS = (*_FILES, KEY_PASSWORD, USERNAME, PASSWORD)
_ADDRESS = re.compile(r"zookeeper://(?P<hosts>[^/@?#,\s]+(,[^/@?#,\s]+)*)(?P<path>(/[^/\s]+)+)/?")
_TAKES = (
    "NAME=zookeeper://HOST:PORT,…/PATH, with Flink's high-availability.zookeeper.path.root and high-availability.cluster-id as the "
    "path, such as zookeeper://zk1:2181,zk2:2181/flink/orders; or NAME=kubernetes://NAMESPACE/CLUSTER, with "
    "kubernetes.cluster-id, such as kubernetes://streams/orders"
)
_CONFIG_MAPS = re.compile(
    r"kubernetes://(?P<namespace>[a-z0-9-]{1,63})/(?P<cluster_id>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)/?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """Authority, client certificate and login; ``properties`` are never shown."""

    properties: Mapping[str, str] = field(repr=False)

    @property
    def login(self) -> str:
        """Return ``user:password`` for an access list of the scheme digest; empty: none."""
        return f"{self.properties[USERNAME]}:{self.properties[PASSWORD]}" if USERNAME in self.properties else ""

    def tls(self) -> dict[str, object]:
        """Return the client's arguments for TLS, which verify server and host name; none where no authority is given."""
        if CA not in self.properties:
            return {}
        files = {name: self.properties[key] for key, name in _FILES.items() if key in self.properties}
        password = self.properties.get(KEY_PASSWORD)
        return {"use_ssl": True, "check_hostname": True, "keyfile_password": password, **files}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """An ensemble's ``hosts`` and the ``path`` of the Flink cluster there: path.root, then cluster-id."""

    hosts: str
    path: str
    access: StoreAccess | None = None

    @property
    def where(self) -> str:
        """Return the place as a person knows it."""
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMapsAddress:
    """A ``namespace`` of Kubernetes and the ``cluster_id`` that names the ConfigMaps there: kubernetes.cluster-id."""

    namespace: str
    cluster_id: str

    @property
    def where(self) -> str:
        """Return the place as a person knows it."""
        return f"{self.namespace}/{self.cluster_id}"


def read_flink_stores(
    given: Sequence[str], properties: Sequence[str], clusters: Collection[str], namespaces: Collection[str] = ()
) -> dict[str, StoreAddress | ConfigMapsAddress]:
    """Return the address of each store, by the cluster's name; ``namespaces``: of ``--flink-kubernetes``.

    Raises SettingsError that never shows a value of a file.
    """
    access = {
        name: StoreAccess(properties=_properties(file))
        for name, file in named(PROPERTIES_OPTION, properties, "NAME=FILE")
    }
    found: dict[str, StoreAddress | ConfigMapsAddress] = {}
    for name, address in named(OPTION, given, _TAKES):
        parts, maps = _ADDRESS.fullmatch(address), _CONFIG_MAPS.fullmatch(address)
        if parts is None and maps is None:
            raise SettingsError(f"{OPTION} {name} takes {_TAKES}")
        if parts is not None and find_spec("kazoo") is None:
            raise SettingsError(f"{OPTION} {name} needs ZooKeeper's client: install indoubt with the extra 'zookeeper'")
        require_cluster(OPTION, name, clusters, namespaces, " or --flink-checkpoints")
        if maps is not None:
            found[name] = ConfigMapsAddress(namespace=maps["namespace"], cluster_id=maps["cluster_id"])
        elif parts is not None:
            found[name] = StoreAddress(hosts=parts["hosts"], path=parts["path"], access=access.get(name))
    for name in access:
        if not isinstance(found.get(name), StoreAddress):
            raise SettingsError(
                f"{PROPERTIES_OPTION} {name} names no store in ZooKeeper: give {OPTION} {name}=zookeeper://… too"
            )
    return found


def _properties(file: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for where, key, value in known_properties(file, PROPERTIES_OPTION, KEYS):
        if not value:
            raise SettingsError(f"{where}: {key} is empty")
        if key in _FILES and not Path(value).is_file():
            raise SettingsError(f"{where}: {key} names no file: it takes a PEM file")
        found[key] = value
    require_pairs(file, found, (*PAIRS, (CERTIFICATE, CA)))
    return found
