"""``indoubt watch``: a collector for each cluster and one set of pages, processes of one parent, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.terminal import has_terminal
from indoubt.lifecycle.visible_text import visible
from indoubt.program import clusters, watch_settings
from indoubt.program.processes import WRONG_SETTINGS, Processes
from indoubt.program.watch_settings import WatchSettings

ASK_EVERY_S = 0.25
LOOK_EVERY_S = 60.0
"""An end of a part is heard at once."""


def main(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run until a signal; return the exit code: 0 after one, 2 for wrong settings, 1 where a part ends before it ever answered."""
    # Heard by ``sigtimedwait`` alone: none interrupts the start of a part.
    ends = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        ends.add(signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, {*ends, signal.SIGHUP, signal.SIGCHLD})
    try:
        settings = watch_settings.read(words, environment)
        is_reloaded = bool(clusters.read(words, environment))
        with Processes(settings, environment) as processes:
            return _Watch(processes, words, environment, ends, is_reloaded=is_reloaded).run()
    except SettingsError as error:
        print(f"indoubt watch: {visible(error)}", file=sys.stderr)
        return WRONG_SETTINGS


class _Watch:
    """What the parent does: it starts what ends, and takes clusters in and out at SIGHUP where they have names."""

    def __init__(
        self,
        processes: Processes,
        words: Sequence[str],
        environment: Mapping[str, str],
        ends: set[signal.Signals],
        *,
        is_reloaded: bool,
    ) -> None:
        self._processes, self._words, self._environment = processes, words, environment
        self._ends, self._is_reloaded, self._has_terminal = ends, is_reloaded, has_terminal()

    def run(self) -> int:
        """Return the exit code once it is over."""
        while not self._processes.answer():
            if (code := self._processes.never_worked()) is not None:
                return code
            if self._heard_the_end(ASK_EVERY_S):
                return 0
        print(*said(self._processes.settings), sep="\n", flush=True)
        while not self._heard_the_end(self._processes.wait_s(LOOK_EVERY_S)):
            _tell(self._processes.keep())
        return 0

    def _heard_the_end(self, wait_s: float) -> bool:
        """Wait until a signal arrives, of a child's end too, or the time is over; return whether it is one that ends this."""
        heard = signal.sigtimedwait({*self._ends, signal.SIGHUP, signal.SIGCHLD}, wait_s)
        if heard is None or heard.si_signo == signal.SIGCHLD:
            return False
        if heard.si_signo != signal.SIGHUP or not self._is_reloaded:
            return heard.si_signo in self._ends
        if self._has_terminal and not has_terminal():
            # The window was closed in which it was started.
            return signal.SIGHUP in self._ends
        self._reload()
        return False

    def _reload(self) -> None:
        settings = self._processes.settings
        try:
            wanted = clusters.read(self._words, self._environment)
            if not wanted:
                raise SettingsError("no cluster is left; Ctrl-C or SIGTERM ends all")
            _tell(self._processes.change(settings.watching(wanted)))
        except SettingsError as error:
            _tell([f"nothing was changed: {visible(error)}"])


def _tell(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        print(f"indoubt watch: {sentence}", file=sys.stderr, flush=True)


def said(settings: WatchSettings) -> Iterator[str]:
    """Yield the lines that say where the pages are, and what is open to whom."""
    access = settings.access
    for watched in settings.collectors.values():
        cluster = watched.cluster
        name = f"{cluster.name} ({cluster.servers})" if cluster.name else cluster.servers
        yield f"indoubt watches {name}; its history is in {cluster.directory}"
    yield ""
    yield f"  Open  {settings.address}"
    yield ""
    yield f"Look:   {_who_looks(settings)}"
    if access.read_only:
        yield "Order:  nobody (--read-only)"
    else:
        of_one = "" if len(settings.collectors) == 1 else f" --cluster {next(iter(settings.collectors))}"
        yield f"Order:  {access.in_commands}, by commands on this machine: 'indoubt overview{of_one}', 'indoubt commit KEY{of_one}'"
        yield f"        on the pages {_who_orders_there(settings)}"
    yield "Ctrl-C ends it."


def _who_looks(settings: WatchSettings) -> str:
    if settings.access.signs_in:
        return "who signs in"
    if settings.is_local:
        return "every user of this machine, and nobody else"
    return f"EVERYBODY who reaches {settings.address}: there is no sign-in"


def _who_orders_there(settings: WatchSettings) -> str:
    if settings.access.signs_in:
        return "who signs in and is of an operator's group"
    if settings.access.on_pages:
        return f"every user of this machine, in the name of {settings.access.on_pages} (INDOUBT_OPERATOR_TOKEN)"
    token = "INDOUBT_OPERATOR_TOKEN=NAME:TOKEN or " if settings.is_local else ""
    return f"nobody: that takes {token}a sign-in (docs/security.md)"
