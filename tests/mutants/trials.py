"""Runs the tests against a change, each in a fork of a process that has imported and collected everything."""

from __future__ import annotations

import importlib.abc
import importlib.util
import mmap
import os
import pickle
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, ModuleType

import pytest

# No conftest is loaded here, and without this a property test that is late would count as a change that was noticed.
import tests.property_tests  # noqa: F401
from tests.mutants.operators import Mutant, MutatedModule

LIMIT_S, TIMES_AS_LONG = 30.0, 10
"""A change that makes a loop endless is noticed: the tests would not end. This is how long a trial may take beyond ten
times what the tests take together without any change."""
LEFT_OUT = (
    "cacheprovider",
    "hypothesispytest",
    "playwright",
    "schemathesis",
    "terminal",
    "timeout",
    "warnings",
    "xdist",
)
FIXTURES = "tests.unit.collector.conftest"
# Without the fixtures of services the process is small: a fork of it takes a few milliseconds.
ARGUMENTS = ["-x", "-s", "-o", "addopts=", "--noconftest", f"-p{FIXTURES}", "-m", "not long"]
ARGUMENTS += [f"-pno:{name}" for name in LEFT_OUT]


class _WithoutTracebacks:
    """A pytest plugin: what a failure looked like takes longer to put together than most tests, and is not read."""

    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.tbstyle = "value"


class TestsFail(Exception):
    """The tests fail without any change, or none could be collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of changes: those that no test noticed, and those with which the tests did not end."""

    lived: list[int]
    endless: list[int]
    limit_s: float


def tried(module: MutatedModule, name: str, mutants: Sequence[Mutant], tests: Sequence[str], at_once: int) -> Tried:
    """Try each change; the numbers are its places. Raises TestsFail when the tests fail unchanged."""
    found = _in_fork(lambda: _tried(module, name, mutants, tests, at_once))
    if found is None:
        raise TestsFail(f"the tests of {name} fail as they are: {' '.join(tests)}")
    return found


def _tried(
    module: MutatedModule, name: str, mutants: Sequence[Mutant], tests: Sequence[str], at_once: int
) -> Tried | None:
    in_functions = [at for at, mutant in enumerate(mutants) if mutant.function]
    in_body = [at for at, mutant in enumerate(mutants) if not mutant.function]
    session = _Session(module, name, [mutants[at] for at in in_functions], at_once)
    ended = pytest.main([*ARGUMENTS, *tests], plugins=[session, _WithoutTracebacks()])
    if ended != pytest.ExitCode.OK or session.tried is None:
        return None
    of_functions = session.tried
    # What no test calls may be called as the module is loaded; if not, each change of it is left.
    in_body += [in_functions[at] for at in session.not_called]
    _forget_own_modules()
    limit_s = of_functions.limit_s + LIMIT_S
    if in_body and _noted(iter([_forked(lambda: _of_body(module, name, None, tests), limit_s)]), 1) != ([0], []):
        return None
    trials = (_forked(lambda at=at: _of_body(module, name, mutants[at], tests), limit_s) for at in in_body)
    lived, endless = _noted(trials, at_once)
    return Tried(
        lived=sorted([*(in_functions[at] for at in of_functions.lived), *(in_body[at] for at in lived)]),
        endless=sorted([*(in_functions[at] for at in of_functions.endless), *(in_body[at] for at in endless)]),
        limit_s=of_functions.limit_s,
    )


def _forget_own_modules() -> None:
    """Let this project's modules be imported again; what they import of others stays, which is most of the time."""
    own = {package.parent.name for package in Path().glob("*/__init__.py")}
    for name in list(sys.modules):
        if name.partition(".")[0] in own and name != "tests" and not name.startswith(("tests.mutants", "tests.prop")):
            del sys.modules[name]


def _of_body(module: MutatedModule, name: str, mutant: Mutant | None, tests: Sequence[str]) -> bool:
    """Import the module changed, or with None as it is, then run all tests; return whether all passed."""
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(name, module.compiled(mutant)))
    return pytest.main([*ARGUMENTS, *tests], plugins=[_WithoutTracebacks()]) == pytest.ExitCode.OK


class _Session:
    """A pytest plugin: in the place of running the tests once it runs them for each change, in a fork."""

    def __init__(self, module: MutatedModule, name: str, mutants: Sequence[Mutant], at_once: int) -> None:
        self.module, self.name, self.mutants, self.at_once = module, name, mutants, at_once
        self.tried: Tried | None = None
        self.not_called: list[int] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        began = time.monotonic()
        callers: dict[str, list[int]] | None = _in_fork(lambda: self._callers(session.items))
        limit_s = LIMIT_S + TIMES_AS_LONG * (time.monotonic() - began)
        if callers is None:
            session.testsfailed = 1
            return True
        # A fork writes the number of its change where the test stands that noticed it. What noticed a change just now is
        # tried first: it notices most of those beside it.
        noticed = memoryview(mmap.mmap(-1, 4 * len(session.items))).cast("i")
        called = [at for at, mutant in enumerate(self.mutants) if mutant.function in callers]
        self.not_called = [at for at, mutant in enumerate(self.mutants) if mutant.function not in callers]
        trials = (
            _forked(
                lambda mutant=self.mutants[at], number=at + 1: self._passes(
                    mutant, number, session.items, callers[mutant.function], noticed
                ),
                limit_s,
            )
            for at in called
        )
        lived, endless = _noted(trials, self.at_once)
        self.tried = Tried(lived=[called[at] for at in lived], endless=[called[at] for at in endless], limit_s=limit_s)
        return True

    def _callers(self, items: Sequence[pytest.Item]) -> dict[str, list[int]] | None:
        """Run every test unchanged; return which of them call each function, None if one fails."""
        callers: dict[str, list[int]] = {}
        called: set[str] = set()
        path = str(self.module.path)

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename == path:
                called.add(frame.f_code.co_qualname.partition(".<locals>")[0])

        for at, item in enumerate(items):
            called.clear()
            sys.setprofile(note)
            passed = _run(item, items[at + 1] if at + 1 < len(items) else None)
            sys.setprofile(None)
            if not passed:
                print(f"fails without any change: {item.nodeid}", file=sys.__stdout__, flush=True)
                return None
            for function in called:
                callers.setdefault(function, []).append(at)
        return callers

    def _passes(
        self, mutant: Mutant, number: int, items: Sequence[pytest.Item], callers: Sequence[int], noticed: memoryview
    ) -> bool:
        _patch(sys.modules[self.name], self.module.compiled(mutant))
        in_turn = sorted(callers, key=lambda at: -noticed[at])
        for at, following in zip(in_turn, [*in_turn[1:], None], strict=True):
            if not _run(items[at], items[following] if following is not None else None):
                noticed[at] = number
                return False
        return True


def _run(item: pytest.Item, following: pytest.Item | None) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _patch(module: ModuleType, changed: CodeType) -> None:
    """Give every function and method of the module its changed code: whoever imported it has the change too."""
    codes = {code.co_qualname: code for code in _codes(changed)}
    for function in _functions(vars(module).values(), module.__name__):
        if function.__qualname__ in codes:
            function.__code__ = codes[function.__qualname__]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _functions(values: Iterable[object], name: str) -> Iterator[types.FunctionType]:
    for value in values:
        match value:
            case type() if value.__module__ == name:
                yield from _functions(vars(value).values(), name)
            case property():
                yield from _functions((value.fget, value.fset), name)
            case cached_property():
                yield from _functions((value.func,), name)
            case classmethod() | staticmethod():
                yield from _functions((value.__func__,), name)
            case types.FunctionType() if value.__module__ == name:
                yield value
                yield from _functions((getattr(value, "__wrapped__", None),), name)
            case _ if hasattr(value, "cache_clear") and value.__module__ == name:
                yield from _functions((value.__wrapped__,), name)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from changed code."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.name, self.code = name, code

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, vars(module))


def _forked(trial: Callable[[], bool], limit_s: float) -> int:
    """Start a trial in a fork; return its process id. It exits with 1 if a test failed."""
    pid = os.fork()
    if pid:
        return pid
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        os._exit(0 if trial() else 1)
    finally:
        os._exit(1)


def _noted(trials: Iterator[int], at_once: int) -> tuple[list[int], list[int]]:
    """Run trials, so many at a time; return the places of those that nothing noticed, and of those that did not end."""
    running: dict[int, int] = {}
    lived: list[int] = []
    endless: list[int] = []

    def wait_for_one() -> None:
        pid, status = os.wait()
        at, code = running.pop(pid), os.waitstatus_to_exitcode(status)
        if code == -signal.SIGALRM:
            endless.append(at)
        # Something else may have killed it, which says nothing about the change.
        elif code != 1:
            lived.append(at)

    for at, pid in enumerate(trials):
        running[pid] = at
        if len(running) >= at_once:
            wait_for_one()
    while running:
        wait_for_one()
    return lived, endless


def _in_fork(work: Callable[[], object]) -> object:
    """Return what a function returns that runs in a fork, so that what it imports stays there."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        try:
            with os.fdopen(writer, "wb") as out:
                pickle.dump(work(), out)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        data = answer.read()
    os.waitpid(pid, 0)
    return pickle.loads(data) if data else None
