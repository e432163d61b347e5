"""Tokens for SASL OAUTHBEARER: fetched, and kept until shortly before they expire."""

from __future__ import annotations

import base64
import binascii
import importlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from indoubt.lifecycle.errors import SettingsError, Unreachable
from indoubt.resource_managers.kafka import oauth_properties
from indoubt.resource_managers.kafka.oauth_properties import (
    CA_LOCATION,
    CA_PEM,
    CLIENT_ID,
    CLIENT_SECRET,
    SCOPE,
    TOKEN_URL,
)

ANSWER_LIMIT_S = 5.0
KEPT_SHARE = 0.8
"""A token is asked for anew when this share of its life is over, as librdkafka does."""
LIFE_UNKNOWN_S = 60.0
"""How long a token counts as valid whose life neither the answer nor the token itself tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token for the broker, never shown; ``expires_s`` in epoch seconds."""

    text: str
    expires_s: float

    def __repr__(self) -> str:
        return f"Token(expires_s={self.expires_s:.0f})"


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """Gives kafka-python and librdkafka the same token. Thread-safe."""

    def __init__(self, fetch: Callable[[], Token], extensions: Mapping[str, str]) -> None:
        super().__init__()
        self._fetch, self._extensions = fetch, dict(extensions)
        self._lock = threading.Lock()
        self._kept: Token | None = None
        self._renew_s = 0.0

    def current(self) -> Token:
        """Return a valid token. Raises Unreachable, SettingsError."""
        with self._lock:
            now_s = time.time()
            if self._kept is None or now_s >= self._renew_s:
                token = self._fetch()
                self._kept, self._renew_s = token, now_s + KEPT_SHARE * (token.expires_s - now_s)
            return self._kept

    def token(self) -> str:
        """Return a valid token's text: what kafka-python asks for at each login. Raises what ``current`` raises."""
        return self.current().text

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions."""
        return dict(self._extensions)

    def for_librdkafka(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Return token, expiry in epoch seconds, principal and extensions: librdkafka's ``oauth_cb``."""
        token = self.current()
        return token.text, token.expires_s, "indoubt", self.extensions()


def token_provider(properties: Mapping[str, str]) -> TokenProvider:
    """Return this process's provider of tokens for these properties. Raises SettingsError where a package is missing."""
    return _provider(tuple(sorted((name, properties[name]) for name in oauth_properties.TAKEN & properties.keys())))


@cache
def _provider(items: tuple[tuple[str, str], ...]) -> TokenProvider:
    properties = dict(items)
    if properties[oauth_properties.METHOD] == oauth_properties.MSK:
        return TokenProvider(_msk(properties[oauth_properties.REGION]), {})
    return TokenProvider(_oidc(properties), oauth_properties.extensions(properties))


def _msk(region: str) -> Callable[[], Token]:
    try:
        signer: Any = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        raise SettingsError(
            "sasl.oauthbearer.method=aws_msk_iam needs the package aws-msk-iam-sasl-signer-python: "
            "install indoubt with the extra 'msk'"
        ) from None

    def fetch() -> Token:
        try:
            text, expires_ms = signer.generate_auth_token(region)
        except Exception as error:
            # botocore has no common base of its errors, and what they say may hold parts of a credential.
            raise Unreachable(
                f"AWS gave no token for MSK in region {region} ({type(error).__name__}): has this process credentials?"
            ) from None
        return Token(text=text, expires_s=expires_ms / 1000)

    return fetch


def _oidc(properties: Mapping[str, str]) -> Callable[[], Token]:
    import httpx  # here, because connections without tokens need no HTTP

    url = properties[TOKEN_URL]
    form = {"grant_type": "client_credentials"}
    if properties.get(SCOPE):
        form["scope"] = properties[SCOPE]
    tls = _tls(properties)

    def fetch() -> Token:
        try:
            answer = httpx.post(
                url,
                data=form,
                auth=(properties[CLIENT_ID], properties[CLIENT_SECRET]),
                timeout=ANSWER_LIMIT_S,
                verify=tls,
            )
        except httpx.HTTPError as error:
            raise Unreachable(f"token endpoint {url} did not answer within {ANSWER_LIMIT_S:g} s: {error}") from None
        if answer.status_code != httpx.codes.OK:
            # Never the body: it may repeat what was sent.
            raise Unreachable(
                f"token endpoint {url} answered {answer.status_code}: check {CLIENT_ID} and {CLIENT_SECRET}"
            )
        return _token(answer.content, url)

    return fetch


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        if CA_PEM in properties:
            return ssl.create_default_context(cadata=properties[CA_PEM].replace("\\n", "\n"))
        return ssl.create_default_context(cafile=properties.get(CA_LOCATION))
    except (OSError, ValueError) as error:
        name = CA_PEM if CA_PEM in properties else CA_LOCATION
        raise SettingsError(
            f"Kafka property {name} cannot be used: {getattr(error, 'strerror', None) or error}"
        ) from None


def _token(body: bytes, url: str) -> Token:
    now_s = time.time()
    try:
        answer = json.loads(body)
        text, life_s = answer["access_token"], answer.get("expires_in")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Unreachable(f"token endpoint {url} answered without access_token") from None
    if not isinstance(text, str) or not text.isascii() or not text.isprintable():
        raise Unreachable(f"token endpoint {url} answered an access_token that is no text")
    told_s = now_s + float(life_s) if isinstance(life_s, int | float) else None
    return Token(text=text, expires_s=told_s or _expiry_of(text) or now_s + LIFE_UNKNOWN_S)


def _expiry_of(text: str) -> float | None:
    """Return a JWT's ``exp``, in epoch seconds, None where the token is opaque."""
    try:
        payload = text.split(".")[1]
        expires_s = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
    except (IndexError, ValueError, KeyError, TypeError, binascii.Error):
        return None
    return float(expires_s) if isinstance(expires_s, int | float) else None
