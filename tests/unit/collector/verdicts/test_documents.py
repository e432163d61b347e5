"""docs/verdicts.md has one row for each verdict and for each rule, in the order in which the code tries them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collector.verdicts import flink_commits, hanging_transactions, read_process_write, verdict_rules
from lifecycle.verdicts import URGENCY, Verdict

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


def test_each_rule_has_its_row_in_the_order_of_trial() -> None:
    ours = [rule for rule in verdict_rules.RULES if rule not in DELEGATED]
    names = [
        rule.__name__ for rule in (*ours, verdict_rules.rule_15_in_progress, *flink_commits.RULES, *READ_PROCESS_WRITE)
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
