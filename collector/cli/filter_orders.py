"""Orders by filter on the command line: what the filter means, and one order or as many parts as it takes."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.cli.arguments import read_filter
from collector.cli.client import Client, Refused, Unanswered
from collector.cli.kept_orders import KeptOrders, Part, PartedOrder, part_key
from collector.cli.order_answers import (
    DONE,
    DRY_REASON,
    NOT_DONE,
    STEP_COLUMNS,
    TRANSACTION_COLUMNS,
    Wanted,
    WrongUse,
    give_one,
    say,
)
from collector.cli.text_table import table
from lifecycle.counted_nouns import counted
from lifecycle.rows.order_request import MAX_KEYS, PART

CONFLICT = 409
_DONE = {"abort": "aborted", "commit": "committed"}
_RISKS = {
    "abort": "data may be lost",
    "commit": "right only if the job is then restored from this checkpoint or a later one",
}
_WORST_FIRST = ("failed", "pending", "accepted", "dry_run")


@dataclass(slots=True, kw_only=True)
class _Given:
    """What became of the parts that were sent, as one answer."""

    audits: list[int] = field(default_factory=list)
    outcomes: set[str] = field(default_factory=set)
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    took_ms: int = 0

    def add(self, answer: Mapping[str, Any]) -> None:
        self.audits.append(answer["audit"])
        self.outcomes.add(answer["outcome"])
        self.steps += answer["steps"]
        self.took_ms += answer["took_ms"]

    def add_refused(self, keys: Sequence[str], why: str) -> None:
        self.outcomes.add("failed")
        self.steps += [{"key": key, "description": "nothing", "outcome": "refused", "detail": why} for key in keys]

    @property
    def outcome(self) -> str:
        """Return how it ended as a whole: as its worst part did."""
        return next(outcome for outcome in _WORST_FIRST if outcome in self.outcomes)

    def show(self, given: argparse.Namespace) -> int:
        """Print it like the answer to one order; return the exit code."""
        one = {"audits": self.audits, "outcome": self.outcome, "took_ms": self.took_ms, "steps": self.steps}
        print(json.dumps(one) if given.json else table(self.steps, STEP_COLUMNS))
        audits = f"audit {self.audits[0]}" if self.audits else "no audit"
        audits += f" to {self.audits[-1]}" if len(self.audits) > 1 else ""
        say(f"{audits}: {self.outcome.replace('_', ' ')} in {self.took_ms} ms")
        if "pending" in self.outcomes:
            say("the end of some is not known yet and is followed up: later audit rows refer to these")
        # A dry run ends as one, whatever it would refuse.
        is_whole = self.outcome in ("accepted", "dry_run") and all(step["outcome"] != "refused" for step in self.steps)
        return DONE if is_whole else NOT_DONE


def give(client: Client, given: argparse.Namespace) -> int:
    """Give the order for all that the filter means, or check it; return the exit code. Raises WrongUse, Unanswered, Refused."""
    if given.keys or (given.command == "commit" and given.verdict):
        others = " or --verdict" if given.command == "commit" else ""
        raise WrongUse(f"{given.command} takes KEYs or --filter{others}, not both")
    if given.yes and not given.fingerprint:
        raise WrongUse("--fingerprint is missing: run the command without --yes first, it shows what the filter means")
    wanted = read_filter(given.filter)
    if given.yes and given.idempotency_key:
        kept = KeptOrders.of(client.url)
        if (order := kept.find(given.idempotency_key)) is not None:
            return _go_on(client, given, wanted, kept, order)
        if (code := _given_before(client, given, wanted)) is not None:
            return code
    preview = client.preview(given.command, wanted)
    if not given.json:
        _show(preview, given.command)
    if not preview["keys"]:
        raise Refused(f"the filter means no transaction that may be {_DONE[given.command]}")
    say(f"fingerprint: {preview['fingerprint']}")
    if given.command == "abort" and len(preview["keys"]) <= MAX_KEYS:
        # One order takes them, and the collector compares the fingerprint in the same step.
        request = {"filter": preview["filter"], "fingerprint": given.fingerprint or preview["fingerprint"]}
        return give_one(client, given, Wanted(action="abort", request=request), 0)
    if given.yes and given.fingerprint != preview["fingerprint"]:
        raise Refused(
            f"the filter means other transactions, or changed ones, than its preview showed: {len(preview['keys'])} now; "
            f"run the command without --yes again. Nothing was {_DONE[given.command]}"
        )
    return _give_in_parts(client, given, wanted, preview)


def _show(preview: Mapping[str, Any], action: str) -> None:
    print(table(preview["rows"], TRANSACTION_COLUMNS))
    for left in preview["left_out"]:
        say(f"left out, may not be {_DONE[action]}: {left['key']} ({left['verdict']})")
    unlisted, unsaid = len(preview["keys"]) - len(preview["rows"]), preview["left_out_total"] - len(preview["left_out"])
    if unlisted:
        say(f"and {counted(unlisted, 'other')}: --json names all")
    if unsaid:
        say(f"and {counted(unsaid, 'other')} left out")


def _give_in_parts(
    client: Client, given: argparse.Namespace, wanted: Mapping[str, Any], preview: Mapping[str, Any]
) -> int:
    """Give an order for some of the transactions after the other; each of them is checked again in its turn."""
    confirmed = [(one["keys"], _confirmation(given, one)) for one in preview["conditions"]]
    order = PartedOrder(
        action=given.command,
        filter=wanted,
        fingerprint=preview["fingerprint"],
        reason=given.reason or DRY_REASON,
        idempotency_key=given.idempotency_key or uuid.uuid4().hex,
        seen=preview["seen"],
        parts=[
            Part(keys=keys[first : first + PART], confirm=confirm)
            for keys, confirm in confirmed
            if confirm is not None
            for first in range(0, len(keys), PART)
        ],
        not_confirmed=sum(len(keys) for keys, confirm in confirmed if confirm is None),
    )
    if not order.parts:
        raise Refused(f"nothing was {_DONE[given.command]}: --confirm is missing, or another text")
    kept = KeptOrders.of(client.url)
    if given.yes:
        say(f"idempotency key: {order.idempotency_key}, for each part with its number")
        try:
            kept.keep(order)
        except OSError as error:
            say(f"if a part gets no answer, this order cannot go on from there: it cannot be kept here ({error})")
    code = _send_all(client, given, kept, order, is_again=False)
    if not given.yes and code == DONE:
        say("nothing was done: add --yes to do it")
    return code


def _go_on(
    client: Client, given: argparse.Namespace, wanted: Mapping[str, Any], kept: KeptOrders, order: PartedOrder
) -> int:
    """Send the parts of an order that had no answer, as they were when it was given; return the exit code. Raises Refused."""
    if (given.command, wanted, given.fingerprint, given.reason) != (
        order.action,
        order.filter,
        order.fingerprint,
        order.reason,
    ):
        raise Refused(
            f"another order was given with the idempotency key {given.idempotency_key!r}, and it is not at its end: give the "
            f"same command again, or another key. Nothing was {_DONE[given.command]}"
        )
    say("this order was given before: it goes on with the parts that had no answer")
    return _send_all(client, given, kept, order, is_again=True)


def _send_all(
    client: Client, given: argparse.Namespace, kept: KeptOrders, order: PartedOrder, *, is_again: bool
) -> int:
    """Send one part after the other, again only those without an answer; return the exit code. Raises Unanswered, Refused."""
    of_all, total, parts = _Given(), order.transactions, len(order.parts)
    try:
        for number in range(1, parts + 1):
            was_answered = is_again and _add_answered(client, order, number, of_all)
            if not was_answered:
                _send(client, order, number, of_all, dry_run=not given.yes)
            audit = f", audit {of_all.audits[-1]}" if of_all.audits else ""
            before = ", answered before" if was_answered else ""
            say(f"part {number} of {parts}: {len(of_all.steps):,} of {counted(total, 'transaction')}{audit}{before}")
    except (Refused, Unanswered, KeyboardInterrupt):
        # What was done is shown all the same.
        if of_all.steps:
            of_all.show(given)
            say(f"{counted(total - len(of_all.steps), 'transaction')} not sent, or without an answer")
        if given.yes:
            say(f"the same command with --idempotency-key {order.idempotency_key} goes on from here")
        raise
    if given.yes:
        kept.forget(order)
    code = of_all.show(given)
    return NOT_DONE if order.not_confirmed else code


def _confirmation(given: argparse.Namespace, condition: Mapping[str, Any]) -> str | None:
    """Return what was typed for these transactions, None: not what they take, and they are not ordered."""
    wanted: str = condition["confirm"]
    number = counted(len(condition["keys"]), "transaction")
    if not given.yes:
        if wanted:
            say(f"{number}: {_RISKS[given.command]}: --confirm takes {wanted!r}")
        return ""
    typed: str = given.confirm
    if wanted and not typed and sys.stdin.isatty():
        typed = input(f"{number}: {_RISKS[given.command]}; type {wanted!r} to do it: ")
    if wanted and typed != wanted:
        say(f"not ordered: {number} for which --confirm takes {wanted!r}")
        return None
    return typed


def _send(client: Client, order: PartedOrder, number: int, of_all: _Given, *, dry_run: bool) -> None:
    try:
        answer = client.order(order.body(number, dry_run=dry_run))
    except Refused as error:
        if error.status != CONFLICT:
            raise
        of_all.add_refused(order.parts[number - 1].keys, str(error))
    else:
        of_all.add(answer)


def _add_answered(client: Client, order: PartedOrder, number: int, of_all: _Given) -> bool:
    """Add the first answer to a part, if there is one; say whether there is."""
    found = client.answer(order.key_of(number))
    if found["refused"]:
        of_all.add_refused(order.parts[number - 1].keys, found["refused"])
    elif found["answer"]:
        of_all.add(found["answer"])
    return bool(found["refused"] or found["answer"])


def _given_before(client: Client, given: argparse.Namespace, wanted: Mapping[str, Any]) -> int | None:
    """Show the first answers of the parts that were sent under this key; None: none was.

    Nothing is sent: all was, or which transactions the rest were is not kept on this machine. It is done only where
    nothing fits the filter any more.
    """
    before, number = _Given(), 1
    while (found := client.answer(part_key(given.idempotency_key, number)))["answer"] or found["refused"]:
        if found["refused"]:
            before.outcomes.add("failed")
            say(f"part {number} was refused: {found['refused']}")
        else:
            before.add(found["answer"])
        number += 1
    if number == 1:
        return None
    say(f"{counted(number - 1, 'part')} of this order had an answer before; these were the answers")
    code = before.show(given)
    left = len(client.preview(given.command, wanted)["keys"])
    if left:
        say(f"{counted(left, 'transaction')} that the filter means may still be {_DONE[given.command]}: look again")
    return NOT_DONE if left else code
