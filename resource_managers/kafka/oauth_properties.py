"""The properties of SASL OAUTHBEARER: tokens of an OpenID Connect provider, or of AWS for MSK."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from indoubt.lifecycle.errors import SettingsError

MECHANISM = "OAUTHBEARER"
PREFIX = "sasl.oauthbearer."
METHOD = "sasl.oauthbearer.method"
OIDC, MSK = "oidc", "aws_msk_iam"
CLIENT_ID, CLIENT_SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
SCOPE, EXTENSIONS = "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions"
REGION = "sasl.oauthbearer.aws.region"
CA_LOCATION, CA_PEM = "https.ca.location", "https.ca.pem"
TAKEN = frozenset({METHOD, CLIENT_ID, CLIENT_SECRET, TOKEN_URL, SCOPE, EXTENSIONS, REGION, CA_LOCATION, CA_PEM})


def is_oauth(properties: Mapping[str, str]) -> bool:
    """Say whether clients log in by a token."""
    return properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "")).upper() == MECHANISM


def is_msk(properties: Mapping[str, str]) -> bool:
    """Say whether the token is one of AWS for MSK."""
    return is_oauth(properties) and properties.get(METHOD) == MSK


def check(properties: Mapping[str, str]) -> None:
    """Return if the properties of OAUTHBEARER are complete. Raises SettingsError naming what is wrong, without secrets."""
    if not is_oauth(properties):
        given = [name for name in properties if name.startswith(PREFIX)]
        if given:
            raise SettingsError(f"Kafka property {given[0]} needs sasl.mechanism={MECHANISM}")
        return
    method = properties.get(METHOD, "")
    if method not in (OIDC, MSK):
        raise SettingsError(f"Kafka property {METHOD} is {method!r}; it takes {OIDC} or {MSK}")
    needed = (REGION,) if method == MSK else (CLIENT_ID, CLIENT_SECRET, TOKEN_URL)
    for name in needed:
        if not properties.get(name):
            raise SettingsError(f"Kafka property {name} is missing: {METHOD}={method} needs it")
    others = TAKEN - {METHOD, REGION} if method == MSK else {REGION}
    for name in sorted(others & properties.keys()):
        raise SettingsError(f"Kafka property {name} does not go with {METHOD}={method}")
    if method == OIDC:
        url = urlsplit(properties[TOKEN_URL])
        if url.scheme not in ("http", "https") or not url.hostname or url.username or url.password:
            raise SettingsError(f"Kafka property {TOKEN_URL} takes an https or http URL without a user")
        if CA_LOCATION in properties and CA_PEM in properties:
            raise SettingsError(f"Kafka properties {CA_LOCATION} and {CA_PEM} exclude each other: give one")
        extensions(properties)


def extensions(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the SASL extensions (``key=value``, comma separated) by name. Raises SettingsError."""
    found: dict[str, str] = {}
    for pair in filter(None, properties.get(EXTENSIONS, "").split(",")):
        name, separator, value = pair.partition("=")
        if not separator or not name.strip().isalpha():
            raise SettingsError(f"Kafka property {EXTENSIONS} takes name=value, comma separated; names are letters")
        found[name.strip()] = value.strip()
    return found
