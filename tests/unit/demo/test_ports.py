"""Free ports: no two calls in any process return the same one, and none is in use or the kernel's to give."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from demo import ports
from demo.ports import free_port, is_taken, listens

ASK = "from demo.ports import free_port; print(*(free_port() for _ in range(50)))"


@pytest.fixture(autouse=True)
def turns(tmp_path, monkeypatch):
    """Keep the turn in a directory of this test's own."""
    monkeypatch.setattr(ports.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_processes_at_once_get_different_ports():
    asking = [subprocess.Popen([sys.executable, "-c", ASK], stdout=subprocess.PIPE) for _ in range(4)]
    given = [int(port) for process in asking for port in process.communicate(timeout=60)[0].split()]
    assert len(given) == 200
    assert len(set(given)) == 200


def test_the_kernel_gives_none_of_them_to_others():
    first, last = (int(port) for port in ports.EPHEMERAL.read_text().split())
    assert not [port for port in (free_port() for _ in range(50)) if first <= port <= last]


def test_a_port_that_is_in_use_is_passed_over():
    port = free_port()
    with socket.socket() as server:
        server.bind(("127.0.0.1", port + 1))
        assert (is_taken(port + 1), listens(port + 1)) == (True, False)
        server.listen()
        assert listens(port + 1)
        assert free_port() > port + 1


def test_the_turn_goes_back_to_the_first(turns, monkeypatch):
    monkeypatch.setattr(ports, "_ports", lambda: range(20_000, 20_003))
    (turns / f"indoubt-next-port-{ports.os.getuid()}").write_text("1")
    assert [free_port() for _ in range(4)] == [20_002, 20_000, 20_001, 20_002]


def test_a_damaged_turn_starts_anywhere(turns):
    (turns / f"indoubt-next-port-{ports.os.getuid()}").write_text("-3x")
    assert free_port() in ports._ports()


def test_no_free_port_says_which_were_tried(monkeypatch):
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "_ports", lambda: range(port, port + 1))
        with pytest.raises(OSError, match=f"no loopback port is free from {port} to {port}"):
            free_port()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("32768\t60999\n", range(10_240, 32_768)),
        ("10240\t60999\n", range(61_000, 65_536)),
        ("1024\t65535\n", range(10_240, 65_536)),
    ],
)
def test_ports_lie_beside_those_of_the_kernel(tmp_path, monkeypatch, kernel, expected):
    (tmp_path / "range").write_text(kernel)
    monkeypatch.setattr(ports, "EPHEMERAL", tmp_path / "range")
    assert ports._ports() == expected
