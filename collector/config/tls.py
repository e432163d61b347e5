"""TLS of the API: its certificate and key are tried before anything is served, so that what is wrong with them is said at start."""

from __future__ import annotations

import logging
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

from indoubt.lifecycle.errors import SettingsError

WARN_DAYS = 14
DAY_S = 86_400
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files: the certificate with those of its authorities behind it, and its key without a passphrase."""

    certificate: Path
    key: Path


def check(files: TlsFiles, now_s: float | None = None) -> int:
    """Return for how many days the certificate is valid from now on. Raises SettingsError that names the file and what is wrong."""
    server = _server_context(files)
    ends_s = ssl.cert_time_to_seconds(str(_shaken_hands(files, server)["notAfter"]))
    days = int((ends_s - (time.time() if now_s is None else now_s)) // DAY_S)
    if days < WARN_DAYS:
        log.warning("the certificate %s ends in %d days: renew it and start again", files.certificate, days)
    return days


def _server_context(files: TlsFiles) -> ssl.SSLContext:
    for option, path in (("--tls-certificate", files.certificate), ("--tls-key", files.key)):
        try:
            path.read_bytes()
        except OSError as error:
            raise SettingsError(f"{option} {path} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A passphrase would be asked for on the terminal, where no person answers.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(
                f"--tls-key {files.key} is not the key of --tls-certificate {files.certificate}"
            ) from None
        raise SettingsError(
            f"--tls-certificate {files.certificate} and --tls-key {files.key} cannot be used ({error.reason or error}): they take "
            "PEM files, the key without a passphrase"
        ) from None
    return context


def _shaken_hands(files: TlsFiles, server: ssl.SSLContext) -> dict[str, object]:
    """Return the certificate as a client got it that trusts this very one: Python reads certificates in no other public way."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(files.certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
    for _ in range(10):
        waits = False
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waits = True
            except ssl.SSLCertVerificationError as error:
                raise SettingsError(
                    f"--tls-certificate {files.certificate} cannot be used: {error.verify_message}"
                ) from None
        if not waits:
            break
    return dict(ends[0].getpeercert() or {})
