"""Begins the collector: settings, history, and what is needed to load it; all else is imported while history is loaded."""

from __future__ import annotations

from indoubt.collector.runtime import lean_process  # noqa: F401 (before what it keeps small)

# isort: split
import contextlib
import gc
import os
import socket
import sys
from collections.abc import Sequence

from indoubt.collector.config import settings as collector_settings
from indoubt.collector.config import tls
from indoubt.collector.config.settings import Settings
from indoubt.collector.config.variables import KAFKA_PROPERTIES
from indoubt.collector.history.store import Store, StoreFailed
from indoubt.collector.runtime import hangup, logs
from indoubt.collector.serve.api.auth import token_store
from indoubt.collector.serve.api.auth.authentication import KnownTokens
from indoubt.collector.verdicts.verdict_case import Limits
from indoubt.collector.views.current_state import CurrentState
from indoubt.collector.views.loading import Loading
from indoubt.lifecycle import private_files
from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka.connection import KafkaConnection

HISTORY = "history.duckdb"
GC_THRESHOLDS = (50_000, 20, 50)
"""Not at each 700 new objects: to import and to load makes hundreds of thousands."""
SWITCH_INTERVAL_S = 0.001
"""A record that has arrived waits for the interpreter at most this long behind each busy thread (Python's default: 5 ms)."""


def run(arguments: Sequence[str]) -> int:
    """Run until SIGINT or SIGTERM; return the exit code: 2 for wrong settings, 1 for a history that cannot be opened or read."""
    news = hangup.listen()
    logs.configure()
    private_files.close_to_others()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        settings = collector_settings.read(arguments, os.environ)
        logs.set_level(settings.tunable.log_level)
        connection = KafkaConnection.from_environment(
            {**os.environ, KAFKA_PROPERTIES: settings.kafka_properties}, settings.bootstrap_servers
        )
        tokens = KnownTokens.given(settings.tokens) if settings.tokens else _kept_tokens(settings)
        if settings.tls is not None:
            tls.check(settings.tls)
        listening = _listen(settings.host, settings.port)
    except SettingsError as error:
        print(f"collector: {error}", file=sys.stderr)
        return 2
    try:
        store = Store(settings.directory / HISTORY)
    except StoreFailed as error:
        print(f"collector: {error}", file=sys.stderr)
        return 1
    with contextlib.closing(store):
        current = _current_state(settings, store)
        with Loading(current) as loading:
            # Half of what there is to import: it takes as long as to load a long history.
            from indoubt.collector import service

            service.serve(
                settings,
                connection,
                tokens,
                store,
                current,
                loading,
                listening,
                news,
                lambda: collector_settings.read(arguments, os.environ),
            )
    if loading.failure is not None:
        print(f"collector: {loading.failure or type(loading.failure).__name__}", file=sys.stderr)
        return 1
    return 0


def _current_state(settings: Settings, store: Store) -> CurrentState:
    tunable = settings.tunable
    limits = Limits(
        commit_overdue_ms=tunable.commit_overdue_ms,
        flink_commit_overdue_ms=tunable.flink_commit_overdue_ms,
        driver_silent_ms=tunable.driver_silent_ms,
        foreign_old_ms=tunable.foreign_old_ms,
    )
    return CurrentState(
        store,
        limits=limits,
        offsets_topics=tunable.offsets_topics,
        flink_writes_here=settings.flink_writes_here,
    )


def _kept_tokens(settings: Settings) -> KnownTokens:
    _, clear_files = token_store.read_or_make(settings.directory)
    for path in clear_files:
        print(f"token: {path} (keep it elsewhere and delete the file: the collector needs its hash alone)", flush=True)
    return KnownTokens.of_file(settings.directory / token_store.FILE_NAME)


def _listen(host: str, port: int) -> socket.socket:
    """Take the API's port first: a port that is taken is said before anything else is touched."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off (40 ms per answer) only where the protocol is named.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"--host {host} --port {port} cannot be listened on: {error.strerror}; give another"
        ) from None
    return listening
