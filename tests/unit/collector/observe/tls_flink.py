"""A REST API of Flink behind TLS on loopback: a real https server that serves what a real Flink answered (flink_recordings)."""

from __future__ import annotations

import json
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.unit.collector.flink_recordings import FIRST_JOB, recorded


class Authority:
    """Signs certificates; writes ``NAME.pem`` and ``NAME.key`` into the directory, its own as ``ca.pem``."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._key = directory, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.ca = directory / "ca.pem"
        signed = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.ca.write_bytes(signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, password: str = "") -> tuple[Path, Path]:
        """Return certificate and key (encrypted by ``password``) of 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        signed = builder.add_extension(address, critical=False).sign(self._key, hashes.SHA256())
        certificate_file, key_file = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        certificate_file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            encryption = serialization.BestAvailableEncryption(password.encode())
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(pem, pkcs8, encryption))
        return certificate_file, key_file

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
        )


class TlsFlink:
    """Serves the recorded answers of the first job; with ``client_ca`` to clients with its certificates alone.

    ``authorization``: the header that a proxy in front demands; without it 401.
    """

    def __init__(self, authority: Authority, *, client_ca: Path | None = None, authorization: str = "") -> None:
        answers = {
            "/jobs/overview": recorded("first_jobs_overview"),
            f"/jobs/{FIRST_JOB}/checkpoints": recorded("first_checkpoints"),
            f"/jobs/{FIRST_JOB}/metrics": [],
        }

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                known = not authorization or self.headers.get("Authorization") == authorization
                sent = self.headers.get("Authorization", "")
                found = answers.get(self.path.partition("?")[0])
                status = 401 if not known else 404 if found is None else 200
                body = json.dumps(found if known else f"not known: {sent}").encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("server"))
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> TlsFlink:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that is refused is what tests want."""
