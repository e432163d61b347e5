"""Certificates for servers of tests that speak TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_authority(directory: Path) -> Path:
    """Fill a directory with ca.pem, other-ca.pem, and cert.pem and key.pem for 127.0.0.1 signed by the first; return it."""
    for name in ("ca", "other-ca"):
        request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
        _openssl(directory, *request, "-keyout", f"{name}.key", "-out", f"{name}.pem")
    asking = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-keyout", "key.pem", "-out", "server.csr"]
    _openssl(directory, *asking)
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signing = [
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
    ]
    _openssl(directory, *signing, "-extfile", "names", "-out", "cert.pem")
    return directory


def tls_listener(authority: Path) -> dict[str, str]:
    """Return the settings of a broker whose client listener takes TLS only."""
    chain = authority / "server.pem"
    chain.write_text((authority / "key.pem").read_text() + (authority / "cert.pem").read_text())
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(chain),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority / "ca.pem"),
    }


def tls_client(authority: Path, name: str = "ca.pem") -> dict[str, str]:
    """Return the properties of a client that trusts this authority."""
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority / name)}


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60)
