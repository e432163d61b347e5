"""The settings of the sign-in: how persons sign in, and which of their groups may do what. See docs/settings.md."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Role
from indoubt.lifecycle.text_files import text_of

CLIENT_SECRET = "INDOUBT_OIDC_CLIENT_SECRET"
CLIENT_SECRET_FILE = "INDOUBT_OIDC_CLIENT_SECRET_FILE"
EVERYBODY = "*"
MAX_SESSION_HOURS = 168
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Which groups make an operator and which a viewer; ``*`` stands for whoever signs in."""

    operators: frozenset[str]
    viewers: frozenset[str]

    def role_of(self, groups: Collection[str]) -> Role | None:
        """Return the highest role that a person of these groups has, None without one."""
        theirs = {*groups, EVERYBODY}
        if self.operators & theirs:
            return Role.OPERATOR
        return Role.VIEWER if self.viewers & theirs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySignIn:
    """A proxy at one of ``networks`` signs persons in and sets two headers."""

    networks: tuple[Network, ...]
    person_header: str
    groups_header: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSignIn:
    """An OpenID provider signs persons in. ``client_secret`` is empty for a public client."""

    issuer: str
    client_id: str
    scopes: str
    person_claim: str
    groups_claim: str
    client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """How persons sign in. ``public_url``: how browsers reach the pages, without a slash at its end; empty: as they say."""

    way: ProxySignIn | OidcSignIn
    groups: Groups
    session_s: float
    public_url: str

    @property
    def is_https(self) -> bool:
        """Return whether browsers reach the pages by TLS."""
        return self.public_url.startswith("https://")


def add_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options of the sign-in; each has a line in docs/settings.md."""

    def repeatable(option: str, metavar: str, words: str) -> None:
        parser.add_argument(option, action="append", default=[], metavar=metavar, help=f"{words}; repeatable")

    repeatable(
        "--trusted-proxy", "ADDRESS", "address or network of the proxy that signs persons in and sets the two headers"
    )
    parser.add_argument(
        "--person-header", default="X-Forwarded-User", help="header with the person's name (default: %(default)s)"
    )
    parser.add_argument(
        "--groups-header",
        default="X-Forwarded-Groups",
        help="header with the groups, comma separated (default: %(default)s)",
    )
    parser.add_argument("--oidc-issuer", metavar="URL", help="OpenID provider at which persons sign in")
    parser.add_argument("--oidc-client-id", metavar="ID", help="name under which the provider knows this app")
    parser.add_argument(
        "--oidc-client-secret-file",
        type=Path,
        metavar="FILE",
        help=f"file with the client's secret (or {CLIENT_SECRET})",
    )
    parser.add_argument(
        "--oidc-scopes", default="openid email profile", help="what is asked for (default: %(default)s)"
    )
    parser.add_argument("--person-claim", default="email", help="claim with the person's name (default: %(default)s)")
    parser.add_argument("--groups-claim", default="groups", help="claim with the groups (default: %(default)s)")
    repeatable("--operator-group", "GROUP", "group that may order, * for everybody")
    repeatable("--viewer-group", "GROUP", "group that may look, * for everybody")
    parser.add_argument(
        "--session-hours",
        type=float,
        default=12.0,
        help="hours until a person must sign in again (default: %(default)s)",
    )
    parser.add_argument("--public-url", metavar="URL", default="", help="address at which browsers reach the pages")


def read(given: argparse.Namespace, environment: Mapping[str, str]) -> SignIn | None:
    """Return how persons sign in, None if they do not. Raises SettingsError that names the setting and never a secret."""
    by_proxy, by_oidc = bool(given.trusted_proxy), bool(given.oidc_issuer)
    groups = Groups(operators=frozenset(given.operator_group), viewers=frozenset(given.viewer_group))
    if by_proxy and by_oidc:
        raise SettingsError("--trusted-proxy and --oidc-issuer are two ways to sign in: give one of them")
    if not by_proxy and not by_oidc:
        needless = "--operator-group" if groups.operators else "--viewer-group" if groups.viewers else ""
        if needless or given.oidc_client_id:
            raise SettingsError(
                f"{needless or '--oidc-client-id'} needs a sign-in: give --oidc-issuer or --trusted-proxy as well"
            )
        return None
    if not groups.operators and not groups.viewers:
        raise SettingsError(
            "nobody may do anything: name a group with --operator-group or --viewer-group ('*' stands for everybody)"
        )
    if not 0 < given.session_hours <= MAX_SESSION_HOURS:
        raise SettingsError(
            f"--session-hours is {given.session_hours}; it takes more than 0 and at most {MAX_SESSION_HOURS}"
        )
    way = _proxy(given) if by_proxy else _oidc(given, environment)
    return SignIn(way=way, groups=groups, session_s=given.session_hours * 3600, public_url=public_url(given))


def _proxy(given: argparse.Namespace) -> ProxySignIn:
    networks = []
    for proxy in given.trusted_proxy:
        try:
            networks.append(ipaddress.ip_network(proxy))
        except ValueError:
            raise SettingsError(f"--trusted-proxy is {proxy!r}; it takes an address or a network") from None
    return ProxySignIn(
        networks=tuple(networks), person_header=given.person_header.lower(), groups_header=given.groups_header.lower()
    )


def _oidc(given: argparse.Namespace, environment: Mapping[str, str]) -> OidcSignIn:
    issuer = urlsplit(given.oidc_issuer)
    # Over plain HTTP somebody in between could sign in as anybody.
    if not (issuer.scheme == "https" or (issuer.scheme == "http" and is_loopback(issuer.hostname or ""))):
        raise SettingsError(f"--oidc-issuer is {given.oidc_issuer!r}; it must start with https://")
    if not given.oidc_client_id:
        raise SettingsError("--oidc-client-id is missing; the provider gave it when this app was registered there")
    if "openid" not in given.oidc_scopes.split():
        raise SettingsError(f"--oidc-scopes is {given.oidc_scopes!r}; it must hold 'openid'")
    return OidcSignIn(
        issuer=given.oidc_issuer.rstrip("/"),
        client_id=given.oidc_client_id,
        scopes=given.oidc_scopes,
        person_claim=given.person_claim,
        groups_claim=given.groups_claim,
        client_secret=_client_secret(given.oidc_client_secret_file, environment),
    )


def _client_secret(file: Path | None, environment: Mapping[str, str]) -> str:
    path = file or environment.get(CLIENT_SECRET_FILE, "").strip()
    if not path:
        return environment.get(CLIENT_SECRET, "").strip()
    secret = text_of(path, "--oidc-client-secret-file").strip()
    if not secret:
        raise SettingsError(f"--oidc-client-secret-file {path} is empty; write the client's secret into it")
    return secret


def public_url(given: argparse.Namespace) -> str:
    """Return the address at which browsers reach the pages, without a slash at its end; may be empty. Raises SettingsError."""
    text: str = given.public_url
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query):
        raise SettingsError(
            f"--public-url is {text!r}; it takes an address like https://indoubt.example, without a path"
        )
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches that address or name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
