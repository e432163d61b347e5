"""A token endpoint of OAuth 2 on loopback, behind TLS: for client credentials a signed JWT, whose key is in a JWKS file."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.unit.collector.observe.tls_flink import Authority

AUDIENCE, ISSUER, SCOPE = "kafka", "https://issuer.test", "transactions"
CLIENT_ID, CLIENT_SECRET = "indoubt", "correct-horse"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class TokenEndpoint:
    """Answers POST /token; ``asked`` lists the user agents of the requests that got a token."""

    def __init__(self, directory: Path, life_s: float) -> None:
        self.life_s, self.asked = life_s, list[str]()
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": _number(numbers.n), "e": _number(numbers.e)}
        self.jwks = directory / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [key]}))
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                status, answer = endpoint.answer(self.headers.get("Authorization", ""), form)
                if status == 200:
                    endpoint.asked.append(self.headers.get("User-Agent", ""))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        authority = Authority(directory)
        self.ca = authority.ca
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("tokens"))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        """Return status and body for a request."""
        basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {basic}":
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") != ["client_credentials"] or form.get("scope") != [SCOPE]:
            return 400, {"error": "invalid_request"}
        return 200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.life_s}

    def token(self) -> str:
        """Return a signed JWT that is valid for ``life_s``."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": CLIENT_ID,
            "scope": SCOPE,
            "iat": now,
            "exp": now + self.life_s,
        }
        parts = [{"alg": "RS256", "kid": "1", "typ": "JWT"}, claims]
        signed = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"

    def properties(self, secret: str = CLIENT_SECRET) -> dict[str, str]:
        """Return the Kafka properties of a client that logs in with this endpoint's tokens."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.scope": SCOPE,
            "https.ca.location": str(self.ca),
        }

    def __enter__(self) -> TokenEndpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
