"""Runs the tests against a change, each in a fork of a process that has imported and collected everything."""

from __future__ import annotations

import importlib.abc
import importlib.util
import mmap
import os
import pickle
import signal
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from types import CodeType, FrameType, ModuleType

import pytest

# No conftest is loaded here, and without this a property test that is late would count as a change that was noticed.
import tests.property_tests  # noqa: F401
from tests.mutants.operators import Mutant, MutatedModule

LIMIT_S = 120
"""A change that makes a loop endless is noticed: the tests would not end."""
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
# Without the fixtures of services the process is small: a fork of it takes a few milliseconds.
ARGUMENTS = ["-x", "-s", "-o", "addopts=", "--noconftest", *(f"-pno:{name}" for name in LEFT_OUT)]


class TestsFail(Exception):
    """The tests fail without any change, or none could be collected."""


def survivors(
    module: MutatedModule, name: str, mutants: Sequence[Mutant], tests: Sequence[str], at_once: int
) -> list[Mutant]:
    """Return those that no test noticed, in the order given. Raises TestsFail when the tests fail unchanged."""
    in_functions = [mutant for mutant in mutants if mutant.function]
    in_body = [mutant for mutant in mutants if not mutant.function]
    lived = _in_fork(lambda: _of_functions(module, name, in_functions, tests, at_once))
    if lived is None:
        raise TestsFail(f"the tests of {name} fail as they are: {' '.join(tests)}")
    unnoticed = {in_functions[at] for at in lived}
    trials = (_forked(lambda mutant=mutant: _of_body(module, name, mutant, tests)) for mutant in in_body)
    unnoticed |= {in_body[at] for at in _noted(trials, at_once)}
    return [mutant for mutant in mutants if mutant in unnoticed]


def _of_body(module: MutatedModule, name: str, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Import the module changed, then run all tests; return whether all passed."""
    sys.meta_path.insert(0, _Changed(name, module.compiled(mutant)))
    return pytest.main([*ARGUMENTS, *tests]) == pytest.ExitCode.OK


def _of_functions(
    module: MutatedModule, name: str, mutants: Sequence[Mutant], tests: Sequence[str], at_once: int
) -> list[int] | None:
    session = _Session(module, name, mutants, at_once)
    ended = pytest.main([*ARGUMENTS, *tests], plugins=[session])
    return session.lived if ended == pytest.ExitCode.OK else None


class _Session:
    """A pytest plugin: in the place of running the tests once it runs them for each change, in a fork."""

    def __init__(self, module: MutatedModule, name: str, mutants: Sequence[Mutant], at_once: int) -> None:
        self.module, self.name, self.mutants, self.at_once = module, name, mutants, at_once
        self.lived: list[int] | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        callers: dict[str, list[int]] | None = _in_fork(lambda: self._callers(session.items))
        if callers is None:
            session.testsfailed = 1
            return True
        # A fork writes the number of its change where the test stands that noticed it. What noticed a change just now is
        # tried first: it notices most of those beside it.
        noticed = memoryview(mmap.mmap(-1, 4 * len(session.items))).cast("i")
        trials = (
            _forked(
                lambda mutant=mutant, number=number: self._passes(
                    mutant, number, session.items, callers.get(mutant.function, ()), noticed
                )
            )
            for number, mutant in enumerate(self.mutants, 1)
        )
        self.lived = list(_noted(trials, self.at_once))
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
        tried = sorted(callers, key=lambda at: -noticed[at])
        for at, following in zip(tried, [*tried[1:], None], strict=True):
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


def _forked(trial: Callable[[], bool]) -> int:
    """Start a trial in a fork; return its process id. It exits with 0 if all tests passed."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(LIMIT_S)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        os._exit(0 if trial() else 1)
    finally:
        os._exit(1)


def _noted(trials: Iterator[int], at_once: int) -> Iterator[int]:
    """Run trials, so many at a time; yield the place of each in which all tests passed."""
    running: dict[int, int] = {}
    for at, pid in enumerate(trials):
        running[pid] = at
        if len(running) >= at_once:
            yield from _ended(running)
    while running:
        yield from _ended(running)


def _ended(running: dict[int, int]) -> Iterator[int]:
    pid, status = os.wait()
    at = running.pop(pid)
    if status == 0:
        yield at


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
