"""Loopback TCP ports for the servers that demo, tests and benchmarks start: which are free, and who listens."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

LOWEST, HIGHEST = 10_240, 65_535
FEW = 1_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a loopback TCP port that no process uses and that no other call returns for the next thousands of calls.

    A server binds its port long after this call: a JVM takes seconds. So the kernel's choice (port 0) is no good: it
    gives the same port to the next program that asks, or to an outgoing connection. These ports are outside the
    kernel's range for that, and every process of this user takes the next one in turn.
    """
    ports = _ports()
    file = os.open(Path(tempfile.gettempdir()) / f"indoubt-next-port-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        written = os.pread(file, 16, 0)
        turn = int(written) if written.isdigit() else random.randrange(len(ports))
        for _ in ports:
            turn += 1
            port = ports[turn % len(ports)]
            if not is_taken(port):
                os.ftruncate(file, 0)
                os.pwrite(file, b"%d" % (turn % len(ports)), 0)
                return port
    finally:
        os.close(file)
    raise OSError(f"no loopback port is free from {ports[0]} to {ports[-1]}: end programs that listen on them")


def is_taken(port: int) -> bool:
    """Return whether a server cannot bind this port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def listens(port: int) -> bool:
    """Return whether a process accepts connections on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _ports() -> range:
    """Return the larger range of ports beside the kernel's own, or all ports where the kernel's leaves few."""
    first, last = (int(port) for port in EPHEMERAL.read_text().split())
    beside = max(range(LOWEST, first), range(last + 1, HIGHEST + 1), key=len)
    return beside if len(beside) >= FEW else range(LOWEST, HIGHEST + 1)
