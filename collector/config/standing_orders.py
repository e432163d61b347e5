"""The file of standing orders: what may be done without a person. Read once, at start, and strictly."""

from __future__ import annotations

import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.orders import Action
from indoubt.lifecycle.text_files import text_of

OPTION, VARIABLE = "--standing-orders", "INDOUBT_STANDING_ORDERS"
EVERY_APPLICATION = "*"
MOST_ORDERS = 100
MAX_NAME = 64
NUMBERS = {"less_than_s_left": 86_400, "older_than_minutes": 10_080, "most_per_hour": 1_000}
"""The largest value of each field that is a whole number; the smallest is 1."""
_FLAGS = ("driver_gone", "dry_run")
_FIELDS = ("name", "act", "applications", *NUMBERS, *_FLAGS)
_WHEN = {Action.COMMIT: ("less_than_s_left", "driver_gone"), Action.ABORT: ("older_than_minutes",)}
"""The fields that say when an act is due, by act: one of them is needed, and those of the other act are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingOrder:
    """What may be done to transactions of these applications, when, and how often.

    ``act``: commit or abort. A commit is due when less than ``less_than_s_left`` are left before the timeout, or, with
    ``driver_gone``, when its driver or job is gone; an abort when it is open for longer than ``older_than_minutes``.
    ``dry_run``: the audit says what would have been done, and nothing is done.
    """

    name: str
    act: Action
    applications: frozenset[str]
    most_per_hour: int
    less_than_s_left: int | None = None
    driver_gone: bool = False
    older_than_minutes: int | None = None
    dry_run: bool = True

    def covers(self, application: str) -> bool:
        """Say whether it is about this application."""
        return application in self.applications or EVERY_APPLICATION in self.applications


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingOrders:
    """A file of standing orders; its ``owner`` stands in the audit for every act. Without a file there are none."""

    file: str = ""
    owner: str = ""
    orders: tuple[StandingOrder, ...] = ()


def read(file: str) -> StandingOrders:
    """Return the standing orders of a TOML file, none for an empty name. Raises SettingsError that says what to do."""
    if not file:
        return StandingOrders()
    table = _table(file)
    for name in table:
        if name not in ("owner", "order"):
            raise SettingsError(f"{file}: {name!r} is not known; the file has 'owner' and one [[order]] for each order")
    owner = _text(file, "owner", table.get("owner"), "name the person who answers for these orders")
    given = table.get("order")
    if not isinstance(given, list) or not given or not all(isinstance(order, dict) for order in given):
        raise SettingsError(f"{file}: it has no [[order]]: write one for each standing order, or give no file")
    if len(given) > MOST_ORDERS:
        raise SettingsError(f"{file}: it has {len(given)} orders; it takes at most {MOST_ORDERS}")
    orders = tuple(_order(file, number, order) for number, order in enumerate(given, 1))
    names = [order.name for order in orders]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"{file}: two orders are named {name!r}: give each a name of its own")
    return StandingOrders(file=file, owner=owner, orders=orders)


def _table(file: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(text_of(file, OPTION))
        mode = Path(file).stat().st_mode
    except OSError as error:
        raise SettingsError(f"{OPTION} {file} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{OPTION} {file} is not TOML: {error}") from None
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(f"{OPTION} {file} may be written by others than its owner: chmod go-w {file}")
    return table


def _order(file: str, number: int, given: Mapping[str, Any]) -> StandingOrder:
    name = _text(file, f"order {number}: 'name'", given.get("name"), "give it one: the audit and the alerts say it")
    where = f"{file}: order {name!r}"
    for field in given:
        if field not in _FIELDS:
            raise SettingsError(f"{where} has no field {field!r}; it has {', '.join(_FIELDS)}")
    act = _act(where, given.get("act"))
    numbers = {field: _number(where, field, given[field]) for field in NUMBERS if field in given}
    flags = {field: _flag(where, field, given[field]) for field in _FLAGS if field in given}
    _check_when(where, act, given)
    if "most_per_hour" not in numbers:
        raise SettingsError(f"{where} lacks 'most_per_hour': say how many transactions it may act on in an hour")
    return StandingOrder(
        name=name,
        act=act,
        applications=_applications(where, given.get("applications")),
        most_per_hour=numbers["most_per_hour"],
        less_than_s_left=numbers.get("less_than_s_left"),
        older_than_minutes=numbers.get("older_than_minutes"),
        driver_gone=flags.get("driver_gone", False),
        dry_run=flags.get("dry_run", True),
    )


def _act(where: str, value: object) -> Action:
    known = {action.value: action for action in _WHEN}
    if not isinstance(value, str) or value not in known:
        raise SettingsError(f"{where}: 'act' is {value!r}; it takes {' or '.join(known)}")
    return known[value]


def _applications(where: str, value: object) -> frozenset[str]:
    if not isinstance(value, list) or not value:
        raise SettingsError(
            f"{where}: 'applications' is {value!r}; it takes a list of names. To mean every application, write "
            f'["{EVERY_APPLICATION}"]'
        )
    for name in value:
        if not isinstance(name, str) or not name.strip() or (EVERY_APPLICATION in name and name != EVERY_APPLICATION):
            raise SettingsError(
                f"{where}: 'applications' has {name!r}; it takes whole names, without patterns, or "
                f'["{EVERY_APPLICATION}"] for every application'
            )
    if EVERY_APPLICATION in value and len(value) > 1:
        raise SettingsError(f"{where}: 'applications' has '{EVERY_APPLICATION}' beside names: write one or the other")
    return frozenset(value)


def _check_when(where: str, act: Action, given: Mapping[str, Any]) -> None:
    """Refuse an order that would act on everything at once, and one whose limit is that of the other act."""
    for other, fields in _WHEN.items():
        for field in fields:
            if other is not act and field in given:
                raise SettingsError(f"{where}: {field!r} goes with 'act = \"{other.value}\"', not with {act.value!r}")
    if not any(given.get(field) for field in _WHEN[act]):
        needed = {
            Action.COMMIT: "'less_than_s_left', 'driver_gone = true', or both",
            Action.ABORT: "'older_than_minutes'",
        }[act]
        raise SettingsError(f"{where} does not say when: give {needed}")


def _text(file: str, field: str, value: object, remedy: str) -> str:
    where = field if field.startswith("order") else f"'{field}'"
    if value is None:
        raise SettingsError(f"{file}: {where} is missing: {remedy}")
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= MAX_NAME
        or not value.isprintable()
        or value != value.strip()
    ):
        raise SettingsError(f"{file}: {where} is {value!r}; it takes 1 to {MAX_NAME} printable characters")
    return value


def _number(where: str, field: str, value: object) -> int:
    most = NUMBERS[field]
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise SettingsError(f"{where}: {field!r} is {value!r}; it takes a whole number from 1 to {most}")
    return value


def _flag(where: str, field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{where}: {field!r} is {value!r}; it takes true or false")
    return value
