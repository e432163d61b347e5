"""docs/verdicts.md has one row for each verdict and for each rule, in the order in which the code tries them."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indoubt.collector.verdicts import (
    flink_commits,
    flink_known,
    hanging_transactions,
    read_process_write,
    verdict_rules,
)
from indoubt.lifecycle.verdicts import URGENCY, Assumption, Verdict

DELEGATED = (verdict_rules.rules_of_flink, verdict_rules.rules_of_read_process_write)
READ_PROCESS_WRITE = (
    read_process_write.rule_33_owner_gone,
    read_process_write.rule_28_owner_silent,
    read_process_write.rule_29_owner_works,
)
PAGE = (Path(__file__).parents[4] / "docs" / "verdicts.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| ([a-z ,]+) \| .+ \|$", PAGE, re.MULTILINE)
HANGING_ROWS = re.findall(r"^\| H(\d+) \| .+ \| .+ \|$", PAGE, re.MULTILINE)


def test_each_verdict_has_its_row_in_the_order_of_urgency() -> None:
    rows = re.findall(r"^\| \*\*([a-z ]+)\*\* \| .+ \| .+ \| .+ \| .+ \|$", PAGE, re.MULTILINE)
    assert rows == [verdict.value for verdict in URGENCY]
    assert set(rows) == {verdict.value for verdict in Verdict}
    assert "| verdict | meaning | check | do | else |" in PAGE


def test_each_rule_has_its_row_in_the_order_of_trial() -> None:
    managed = [rule for rule in verdict_rules.RULES if rule not in DELEGATED]
    names = [
        rule.__name__
        for rule in (*managed, verdict_rules.rule_15_in_progress, *flink_commits.RULES, *READ_PROCESS_WRITE)
    ]
    assert [int(number) for number, *_ in ROWS] == [int(name.split("_")[1]) for name in names]


def test_each_rule_names_the_tools_whose_transactions_it_judges() -> None:
    (table,) = re.findall(r"^## Which tools the rules judge$(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    spans = re.findall(
        r"(?:^|, )(H?)(\d+)(?: to H?(\d+))?", "\n".join(re.findall(r"\| ([^|]+) \|$", table, re.MULTILINE)), re.M
    )
    judged = {f"{kind}{number}" for kind, first, last in spans for number in range(int(first), int(last or first) + 1)}
    assert {number for number, *_ in ROWS} | {f"H{number}" for number in HANGING_ROWS} == judged


def test_each_hanging_rule_has_its_row_in_the_order_of_trial() -> None:
    in_code = [rule.__name__.split("_")[0].removeprefix("h") for rule in hanging_transactions.RULES]
    assert in_code == HANGING_ROWS


@pytest.mark.parametrize(("number", "verdicts"), [(number, verdicts) for number, _, verdicts in ROWS])
def test_a_row_names_the_verdicts_that_its_rule_gives(number: str, verdicts: str) -> None:
    source = "".join(Path(module.__file__).read_text() for module in (verdict_rules, flink_commits, read_process_write))
    (body,) = re.findall(rf"^def rule_{number}_\w+\(.*?(?=^(?:def |RULES)|\Z)", source, re.MULTILINE | re.DOTALL)
    given = {Verdict[name].value for name in re.findall(r"Verdict\.([A-Z_]+)", body)}
    assert set(verdicts.split(", ")) == given


ALL_RULES = (
    *(rule for rule in verdict_rules.RULES if rule not in DELEGATED),
    verdict_rules.rule_15_in_progress,
    *flink_commits.RULES,
    *READ_PROCESS_WRITE,
    *hanging_transactions.RULES,
)
GUESSES = {"UNKNOWN", "FOREIGN"}


def number_of(rule: Callable[..., object]) -> str:
    first, second, *_ = rule.__name__.split("_")
    return second if first == "rule" else first.upper()


def answers(rule: Callable[..., object]) -> Iterator[tuple[set[str], set[str], bool]]:
    """Yield of each answer in a rule's code: the verdicts, the assumptions of the whole rule, and whether it may have none."""
    tree = ast.parse(inspect.getsource(rule))
    assumed = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & set(Assumption.__members__)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in ("Judgement", "_marker"):
            continue
        verdicts = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)} & set(Verdict.__members__)
        given = next((word.value for word in call.keywords if word.arg == "assumes"), None)
        is_sure = given is None or not (isinstance(given, ast.Tuple) and given.elts)
        yield verdicts, assumed, is_sure


def test_the_page_lists_every_rule_that_can_be_certain() -> None:
    (table,) = re.findall(r"^These rules can be certain\.(.*?)^And these", PAGE, re.MULTILINE | re.DOTALL)
    listed = dict(re.findall(r"^\| rule (H?\d+) \| ([a-z ]+) \|", table, re.MULTILINE))
    found = {}
    for rule in ALL_RULES:
        for verdicts, _, is_sure in answers(rule):
            named = verdicts or ({case.name for case in Verdict} - GUESSES)
            if is_sure and named - GUESSES:
                found[number_of(rule)] = {Verdict[name].value for name in named - GUESSES}
    # Every answer about a partition has its maker's assumption; H6 takes it away.
    found = {number: verdicts for number, verdicts in found.items() if not number.startswith("H")} | {"H6": {"hanging"}}
    assert listed.keys() == found.keys()
    assert {number for number, verdict in listed.items() if verdict not in found[number]} == set()


def test_the_page_lists_every_assumption_with_its_rules() -> None:
    (table,) = re.findall(r"^And these are all assumptions:(.*?)^\[", PAGE, re.MULTILINE | re.DOTALL)
    rows = dict(re.findall(r"^\| (?!assumed|---)(.+?) \| ([H\d, ]+|all for a branch) \|$", table, re.MULTILINE))
    rules: dict[str, set[str]] = {each.value: set() for each in Assumption}
    for rule in ALL_RULES:
        source = inspect.getsource(rule)
        if "_marker(" in source and "assumes=()" not in source:
            source += inspect.getsource(hanging_transactions._marker)
        if "case.tie" in source:
            tie = (read_process_write.input_tie, read_process_write.read_process_write_case)
            source += "".join(inspect.getsource(each) for each in tie)
        # What every answer about a Flink job's work assumes stands in the case.
        if "known.assumes" in source or "case.assumes_heir" in source:
            source += inspect.getsource(flink_known)
            if number_of(rule) != "23":
                # A job's own checkpoints alone say that its work counts.
                source = source.replace(inspect.getsource(flink_known.FlinkCase._of_itself), "")
        elif "case.assumes" in source:
            source += inspect.getsource(flink_known.FlinkCase.assumes.fget)  # type: ignore[arg-type, attr-defined]
        for name in re.findall(r"Assumption\.([A-Z_]+)", source):
            rules[Assumption[name].value].add(number_of(rule))
    for name in re.findall(r"Assumption\.([A-Z_]+)", inspect.getsource(verdict_rules.judge)):
        rules[Assumption[name].value].add("all for a branch")
    assert {text: set(numbers.split(", ")) for text, numbers in rows.items()} == rules
