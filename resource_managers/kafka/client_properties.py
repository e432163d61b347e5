"""The Kafka properties that are taken, under librdkafka's names, and what kafka-python calls each.

A property that kafka-python cannot have is refused: every part of indoubt uses it.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka import oauth_properties

SECRETS = frozenset(
    {"sasl.password", "ssl.key.password", "ssl.key.pem", oauth_properties.CLIENT_SECRET, "sasl.oauthbearer.extensions"}
)

_PYTHON_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
}
_PYTHON_NUMBERS = {
    "socket.timeout.ms": "request_timeout_ms",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
}
_CHECK_HOST_NAME = "ssl.endpoint.identification.algorithm"
_VERIFY = "enable.ssl.certificate.verification"
_KEEP_ALIVE = "socket.keepalive.enable"
_SWITCHES = (_VERIFY, _KEEP_ALIVE)
_NEED_A_CONTEXT = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "ssl.cipher.suites", _VERIFY)
"""Properties of TLS for which kafka-python has no name of its own: it is given a whole context."""
_MOST_IDLE = "connections.max.idle.ms"
_NEVER_MS = 2**31 - 1
"""What librdkafka's 0, which is never, is for kafka-python."""

TAKEN = frozenset(
    {
        *_PYTHON_NAMES,
        *_PYTHON_NUMBERS,
        *_SWITCHES,
        *_NEED_A_CONTEXT,
        *oauth_properties.TAKEN,
        _CHECK_HOST_NAME,
    }
)

_PEM_INSTEAD = "it reads no keystore; give ssl.certificate.location and ssl.key.location, PEM files"
_TICKET_INSTEAD = "it takes the Kerberos ticket of the environment (KRB5CCNAME)"
_OIDC_INSTEAD = "it can be had with sasl.oauthbearer.method=oidc or aws_msk_iam alone"
_NOT_FOR_KAFKA_PYTHON = {
    "ssl.keystore.location": _PEM_INSTEAD,
    "ssl.keystore.password": _PEM_INSTEAD,
    "ssl.curves.list": "it has no such setting",
    "ssl.sigalgs.list": "it has no such setting",
    "ssl.providers": "it has no such setting",
    "sasl.kerberos.principal": _TICKET_INSTEAD,
    "sasl.kerberos.keytab": _TICKET_INSTEAD,
    "sasl.kerberos.kinit.cmd": _TICKET_INSTEAD,
    "sasl.kerberos.min.time.before.relogin": _TICKET_INSTEAD,
    "socket.connection.setup.timeout.ms": "it has no such setting",
    "broker.address.family": "it tries each address of a name in turn",
    "sasl.oauthbearer.config": _OIDC_INSTEAD,
    "sasl.oauthbearer.grant.type": _OIDC_INSTEAD,
    "sasl.oauthbearer.assertion.algorithm": _OIDC_INSTEAD,
    "sasl.oauthbearer.assertion.private.key.file": _OIDC_INSTEAD,
    "sasl.oauthbearer.metadata.authentication.type": _OIDC_INSTEAD,
    "enable.sasl.oauthbearer.unsecure.jwt": _OIDC_INSTEAD,
}


def check(properties: Mapping[str, str]) -> None:
    """Return if all properties are taken and have values that their clients take. Raises SettingsError naming the first."""
    for name, value in properties.items():
        if name in _NOT_FOR_KAFKA_PYTHON:
            raise SettingsError(
                f"Kafka property {name!r} cannot be had for the client kafka-python: {_NOT_FOR_KAFKA_PYTHON[name]}"
            )
        if name not in TAKEN:
            raise SettingsError(f"Kafka property {name!r} is unknown; known are: {', '.join(sorted(TAKEN))}")
        if name in _PYTHON_NUMBERS and not value.isdigit():
            raise SettingsError(f"Kafka property {name} is {value!r}; it takes a whole number")
        if name in _SWITCHES and value.lower() not in ("true", "false"):
            raise SettingsError(f"Kafka property {name} is {value!r}; it takes true or false")
    oauth_properties.check(properties)


def for_kafka_python(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments for kafka-python's clients, without a token provider. Raises SettingsError."""
    found: dict[str, Any] = {}
    for name, value in properties.items():
        if name in _PYTHON_NAMES:
            found[_PYTHON_NAMES[name]] = value.upper() if name == "security.protocol" else value
        elif name in _PYTHON_NUMBERS:
            found[_PYTHON_NUMBERS[name]] = _NEVER_MS if name == _MOST_IDLE and int(value) == 0 else int(value)
    if _CHECK_HOST_NAME in properties:
        found["ssl_check_hostname"] = properties[_CHECK_HOST_NAME].lower() == "https"
    if _is_on(properties, _KEEP_ALIVE, False):
        no_delay = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found["socket_options"] = [no_delay, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if any(name in properties for name in _NEED_A_CONTEXT):
        found = {name: value for name, value in found.items() if not name.startswith("ssl_")}
        found["ssl_context"] = tls_context(properties)
    return found


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context of TLS for kafka-python. Raises SettingsError naming what cannot be read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    verify = _is_on(properties, _VERIFY, True)
    context.check_hostname = verify and properties.get(_CHECK_HOST_NAME, "https").lower() == "https"
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    reading = "ssl.cipher.suites"
    try:
        if reading in properties:
            context.set_ciphers(properties[reading])
        reading = "ssl.ca.location" if "ssl.ca.location" in properties else "ssl.ca.pem"
        if reading in properties:
            text = pem(properties, "ssl.ca")
            context.load_verify_locations(cadata=text)
        else:
            context.load_default_certs()
        reading = "ssl.crl.location"
        if reading in properties:
            context.load_verify_locations(properties[reading])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        reading = "the client's certificate (ssl.certificate.* and ssl.key.*)"
        chain, key = pem(properties, "ssl.certificate"), pem(properties, "ssl.key")
        if chain:
            _load(context, chain, key, properties.get("ssl.key.password"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"Kafka property {reading} cannot be used: {_reason(error)}") from None
    return context


def _load(context: ssl.SSLContext, chain: str, key: str, password: str | None) -> None:
    """Load certificate and key. Python takes them from a file alone: this one is in memory, and no disk ever holds it."""
    with os.fdopen(os.memfd_create("indoubt-certificate"), "w") as file:
        file.write(f"{chain}\n{key}\n")
        file.flush()
        # An empty password for an encrypted key: without one Python would ask for it on the terminal.
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=password or "")


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _is_on(properties: Mapping[str, str], name: str, default: bool) -> bool:
    return properties[name].lower() == "true" if name in properties else default


def pem(properties: Mapping[str, str], what: str) -> str:
    """Return the text of ``what.pem``, or of the file of ``what.location``, empty where neither is given. Raises OSError."""
    text = with_newlines(properties.get(f"{what}.pem", ""))
    return text or (Path(properties[f"{what}.location"]).read_text() if f"{what}.location" in properties else "")


def with_newlines(text: str) -> str:
    r"""Return PEM text as lines: in a properties file or a variable it stands in one, with ``\n`` between them."""
    return text.replace("\\n", "\n")


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties as librdkafka takes them, without tokens that we fetch ourselves."""
    found = {name: with_newlines(value) if name.endswith(".pem") else value for name, value in properties.items()}
    if oauth_properties.is_msk(properties):
        found = {name: value for name, value in found.items() if not name.startswith(oauth_properties.PREFIX)}
    return found
