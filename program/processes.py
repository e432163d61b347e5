"""What ``watch`` runs: a collector for each cluster, each with what it leaves for commands, and the pages over all of them."""

from __future__ import annotations

import contextlib
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self

from indoubt.program import session
from indoubt.program.parts import Part, stop
from indoubt.program.watch_settings import Watched, WatchSettings

WRONG_SETTINGS = 2
ASK_LIMIT_S = 2.0
_HEALTH = {"collector": "/api/v1/health", "app": "/_stcore/health"}
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Processes:
    """All processes of one ``watch``; a context: at its end none of them is left."""

    def __init__(self, settings: WatchSettings, environment: Mapping[str, str]) -> None:
        self.settings, self._environment = settings, environment
        self._collectors: dict[str, Part] = {}
        self._sessions: dict[str, contextlib.ExitStack] = {}
        self._app: Part | None = None

    def __enter__(self) -> Self:
        """Start all of them. Raises SettingsError where nothing can be left for commands."""
        try:
            for watched in self.settings.collectors.values():
                self._start(watched)
            self._app = self._started_app()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        stop(self._parts())
        for left in self._sessions.values():
            left.close()

    def answer(self) -> bool:
        """Return whether the pages answer, and each collector, or of several that one has ended and is tried again."""
        for name, watched in self.settings.collectors.items():
            if not self._is_tried_again(self._collectors[name]) and not _answers(watched.url + _HEALTH["collector"]):
                return False
        return _answers(self.settings.local_url + _HEALTH["app"])

    def never_worked(self) -> int | None:
        """Return the exit code where a part ended before all answered, after it is said: what never worked is not tried again.

        A collector of several that fails is tried again, unless its settings are wrong: the others go on.
        """
        for part in self._parts():
            if part.exit_code is None or self._is_tried_again(part):
                continue
            print(f"indoubt watch: {part.how_it_ended()} before it answered", file=sys.stderr, flush=True)
            return WRONG_SETTINGS if part.exit_code == WRONG_SETTINGS else 1
        return None

    def _is_tried_again(self, part: Part) -> bool:
        is_one_of_several = part is not self._app and len(self._collectors) > 1
        return is_one_of_several and part.exit_code not in (None, WRONG_SETTINGS)

    def keep(self) -> list[str]:
        """Start again what has ended, after its pause; return a sentence about each end."""
        return list(filter(None, (part.keep() for part in self._parts())))

    def wait_s(self, at_most_s: float) -> float:
        """Return how long nothing is to be done, unless one ends."""
        return min(part.wait_s(at_most_s) for part in self._parts())

    def change(self, settings: WatchSettings) -> list[str]:
        """End the collectors that are not wanted any more, start the new ones, and have the others read their settings again.

        Return what was done.
        """
        before, after = self.settings.collectors, settings.collectors
        gone = [name for name in before if name not in after or not before[name].goes_on_as(after[name])]
        new = [name for name in after if name not in before or name in gone]
        stop(self._collectors.pop(name) for name in gone)
        for name in gone:
            self._sessions.pop(name).close()
        self.settings = settings
        for name in new:
            self._start(after[name])
        if before.keys() != after.keys() and self._app is not None:
            # Its pages reconnect by themselves.
            stop([self._app])
            self._app = self._started_app()
        said = [f"cluster {name} is not watched any more" for name in gone if name not in after]
        kept = [name for name in after if name not in new]
        for name in kept:
            self._collectors[name].send(signal.SIGHUP)
        said += [f"cluster {name}: its collector reads its settings again, and goes on" for name in kept]
        said += [f"cluster {name} is watched {'again, as it was changed' if name in before else 'now'}" for name in new]
        return said

    def _parts(self) -> Iterator[Part]:
        yield from self._collectors.values()
        if self._app is not None:
            yield self._app

    def _start(self, watched: Watched) -> None:
        name = watched.cluster.name
        left = self._sessions[name] = contextlib.ExitStack()
        token = self.settings.access.command_token
        left.enter_context(
            session.left(session.Session(collector=watched.url, token=token, cluster=name), self._environment)
        )
        called = f"collector of {name}" if name else "collector"
        self._collectors[name] = Part(called, "indoubt.collector", watched.words, watched.environment)

    def _started_app(self) -> Part:
        return Part("app", "indoubt.app", self.settings.of_app, self.settings.access.of_app)


def _answers(address: str) -> bool:
    try:
        with _OPENER.open(address, timeout=ASK_LIMIT_S):
            return True
    except urllib.error.HTTPError:
        # A collector that loads a long history says so.
        return True
    except OSError:
        return False
