"""Orders by filter on the command line: what the filter means, and one order or as many parts as it takes."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.cli.arguments import read_filter
from collector.cli.client import Client, Refused, Unanswered
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some of the transactions of an order, and what was typed for them."""

    keys: Sequence[str]
    confirm: str
    idempotency_key: str


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
    if given.yes and given.idempotency_key and (code := _given_before(client, given, wanted)) is not None:
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
    return _give_in_parts(client, given, preview)


def _show(preview: Mapping[str, Any], action: str) -> None:
    print(table(preview["rows"], TRANSACTION_COLUMNS))
    for left in preview["left_out"]:
        say(f"left out, may not be {_DONE[action]}: {left['key']} ({left['verdict']})")
    unlisted, unsaid = len(preview["keys"]) - len(preview["rows"]), preview["left_out_total"] - len(preview["left_out"])
    if unlisted:
        say(f"and {counted(unlisted, 'other')}: --json names all")
    if unsaid:
        say(f"and {counted(unsaid, 'other')} left out")


def _give_in_parts(client: Client, given: argparse.Namespace, preview: Mapping[str, Any]) -> int:
    """Give an order for some of the transactions after the other; each of them is checked again in its turn."""
    confirmed = [(one["keys"], _confirmation(given, one)) for one in preview["conditions"]]
    sent = [(keys, confirm) for keys, confirm in confirmed if confirm is not None]
    left = sum(len(keys) for keys, confirm in confirmed if confirm is None)
    if not sent:
        raise Refused(f"nothing was {_DONE[given.command]}: --confirm is missing, or another text")
    total, of_all = sum(len(keys) for keys, _ in sent), _Given()
    parts = list(_parts(given, sent))
    if given.yes:
        say(f"idempotency key: {parts[0].idempotency_key.rpartition('-part-')[0]}, for each part with its number")
    try:
        for number, part in enumerate(parts, 1):
            _send(client, given, preview, part, f"part {number} of {len(parts)}", of_all)
            audit = f", audit {of_all.audits[-1]}" if of_all.audits else ""
            say(f"part {number} of {len(parts)}: {len(of_all.steps):,} of {counted(total, 'transaction')}{audit}")
    except (Refused, Unanswered):
        # What was done is shown all the same.
        if of_all.steps:
            of_all.show(given)
            say(f"{counted(total - len(of_all.steps), 'transaction')} not sent, or without an answer")
        raise
    code = of_all.show(given)
    if not given.yes and code == DONE:
        say("nothing was done: add --yes to do it")
    return NOT_DONE if left else code


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


def _parts(given: argparse.Namespace, sent: Sequence[tuple[Sequence[str], str]]) -> Iterator[_Part]:
    key, number = given.idempotency_key or uuid.uuid4().hex, 0
    for keys, confirm in sent:
        for first in range(0, len(keys), PART):
            number += 1
            yield _Part(keys=keys[first : first + PART], confirm=confirm, idempotency_key=_key_of(key, number))


def _key_of(idempotency_key: str, number: int) -> str:
    return f"{idempotency_key}-part-{number}"


def _send(
    client: Client, given: argparse.Namespace, preview: Mapping[str, Any], part: _Part, which: str, of_all: _Given
) -> None:
    body = {
        "action": given.command,
        "keys": part.keys,
        "seen": {key: preview["seen"][key] for key in part.keys},
        "each": True,
        "reason": f"{given.reason or DRY_REASON} ({which} of an order by filter)",
        "dry_run": not given.yes,
        "confirm": part.confirm,
    }
    try:
        answer = client.order(body | ({"idempotency_key": part.idempotency_key} if given.yes else {}))
    except Refused as error:
        if error.status != CONFLICT:
            raise
        of_all.add_refused(part.keys, str(error))
    else:
        of_all.add(answer)


def _given_before(client: Client, given: argparse.Namespace, wanted: Mapping[str, Any]) -> int | None:
    """Show the first answers of the parts that were sent under this key; None: none was.

    It is done only where nothing fits the filter any more: which transactions the rest were is not known.
    """
    before, number = _Given(), 1
    while (found := client.answer(_key_of(given.idempotency_key, number)))["answer"] or found["refused"]:
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
