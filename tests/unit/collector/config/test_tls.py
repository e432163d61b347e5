"""The certificate and key of the API are tried at start, on files that OpenSSL made."""

from __future__ import annotations

import logging
import subprocess
import time
from pathlib import Path

import pytest

from indoubt.collector.config import tls
from indoubt.collector.config.tls import DAY_S, TlsFiles
from indoubt.lifecycle.errors import SettingsError


def make(directory: Path, name: str, *options: str) -> TlsFiles:
    """Return a new key with a certificate that it signed itself."""
    files = TlsFiles(certificate=directory / f"{name}.pem", key=directory / f"{name}.key")
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    request += ["-keyout", str(files.key), "-out", str(files.certificate), "-subj", "/CN=localhost", *options]
    subprocess.run(request, check=True, capture_output=True, timeout=60)
    return files


def make_ended(directory: Path) -> TlsFiles:
    """Return a pair whose certificate ended in 2021; only ``openssl ca`` takes dates."""
    files = make(directory, "ended")
    request, settings = directory / "ended.csr", directory / "ca.cnf"
    (directory / "index.txt").touch()
    settings.write_text(
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n"
        "[p]\ncommonName=supplied\n"
    )
    making = ["openssl", "req", "-new", "-key", str(files.key), "-subj", "/CN=localhost", "-out", str(request)]
    signing = ["openssl", "ca", "-config", str(settings), "-batch", "-selfsign", "-keyfile", str(files.key)]
    signing += ["-startdate", "20200101000000Z", "-enddate", "20210101000000Z", "-notext"]
    signing += ["-in", str(request), "-out", str(files.certificate)]
    for command in (making, signing):
        subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=60)
    return files


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def good(directory: Path) -> TlsFiles:
    return make(directory, "good", "-days", "90")


def test_a_good_pair_is_taken_and_its_days_are_known(good: TlsFiles, caplog: pytest.LogCaptureFixture) -> None:
    assert tls.check(good) in (89, 90)
    assert [r for r in caplog.records if r.name.startswith("indoubt.collector")] == []


def test_one_that_ends_soon_is_warned_of(good: TlsFiles, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert tls.check(good, time.time() + 80 * DAY_S) in (9, 10)
    assert "renew it" in caplog.text


def test_a_key_of_another_certificate_is_refused(directory: Path, good: TlsFiles) -> None:
    other = make(directory, "other")
    with pytest.raises(SettingsError, match=r"other\.key is not the key of --tls-certificate .*good\.pem"):
        tls.check(TlsFiles(certificate=good.certificate, key=other.key))


def test_a_certificate_that_has_ended_is_refused(directory: Path) -> None:
    ended = make_ended(directory)
    with pytest.raises(SettingsError, match=r"ended\.pem cannot be used: certificate has expired"):
        tls.check(ended)


@pytest.mark.parametrize("option", ["certificate", "key"])
def test_a_missing_file_is_named(good: TlsFiles, option: str, tmp_path: Path) -> None:
    paths = {"certificate": good.certificate, "key": good.key, option: tmp_path / "none.pem"}
    with pytest.raises(SettingsError, match=rf"--tls-{option} .*none\.pem cannot be read: No such file"):
        tls.check(TlsFiles(**paths))


@pytest.mark.parametrize("option", ["certificate", "key"])
def test_a_file_that_holds_something_else_is_refused(good: TlsFiles, option: str, tmp_path: Path) -> None:
    paths = {"certificate": good.certificate, "key": good.key, option: tmp_path / "words.pem"}
    (tmp_path / "words.pem").write_text("no PEM")
    with pytest.raises(SettingsError, match="they take PEM files"):
        tls.check(TlsFiles(**paths))


def test_a_key_with_a_passphrase_is_refused_without_asking(good: TlsFiles, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", str(good.key), "-aes256", "-passout", "pass:abcdef", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    with pytest.raises(SettingsError, match="without a passphrase"):
        tls.check(TlsFiles(certificate=good.certificate, key=locked))
