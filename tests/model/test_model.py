"""The protocol as a Promela model: every small size is searched completely, and each rule, left out, leads to harm.

docs/model/README.md explains sizes, switches and properties. What is marked long is left to ``make test-long``.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from docs.model.verify import MODEL, Verification, verify

pytestmark = [pytest.mark.timeout(600), pytest.mark.last]

COMPLETE = {
    # options: at least so many states (some below what was measured), so that a model which does nothing cannot pass
    "-DSLOTS=1": 100_000,
    "-DSLOTS=1 -DTRIES=2 -DRUNS=1": 22_000,
    "-DRUNS=1": 15_000,
    "-DRUNS=1 -DORDERS=1 -DLATE_APPEND": 90_000,
    "-DRUNS=1 -DEQUAL_FINGERPRINTS": 5_000,
    "-DSINK=2 -DSLOTS=1": 90_000,
    "-DSINK=2 -DSLOTS=1 -DTRIES=2 -DRUNS=1": 21_000,
    "-DSINK=2 -DRUNS=1": 7_000,
    "-DSINK=3 -DSLOTS=1 -DTRIES=2 -DRUNS=1": 110_000,
    "-DSINK=3 -DRUNS=1": 55_000,
    "-DSLOTS=1 -DBATCHES=2 -DNOBODY_DIES -DUNASKED_ABORTS=0": 65_000,
    "-DCALM -DRUNS=1": 12_500,
    "-DCALM -DRUNS=1 -DSINK=2": 4_500,
    "-DCALM -DSLOTS=1 -DORDERS=1 -DONLY_OVERTAKEN=0": 15_000,
    "-DCALM -DSLOTS=1 -DTRIES=2 -DBATCHES=2 -DRUNS=1": 54_000,
    "-DSLOTS=1 -DRUNS=1 -DEXPIRY": 1_700,
    "-DSLOTS=1 -DCOARSE_TASKS -DEXPIRY -DONLY_OVERTAKEN=0": 11_500,
    "-DSLOTS=1 -DRUNS=1 -DBATCHES=2 -DEXPIRY -DRESTORE": 19_000,
    "-DSLOTS=1 -DRUNS=1 -DHEAD_CUT": 1_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DTRIM": 180_000,
    "-DSLOTS=1 -DRUNS=1 -DEND_MARKER_MISSING": 800,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=1": 160_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=2": 85_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=3": 97_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=4": 115_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=11": 116_000,
}

COMPLETE_LONG = {
    "-DSLOTS=1 -DBATCHES=2 -DCOARSE_TASKS": 400_000,
    "-DSLOTS=1 -DRUNS=3 -DCOARSE_TASKS -DONLY_OVERTAKEN=2": 390_000,
    "-DCOARSE_TASKS -DONLY_OVERTAKEN=0": 155_000,
    "-DSINK=2 -DCOARSE_TASKS -DONLY_OVERTAKEN=0": 180_000,
    "-DSINK=3 -DSLOTS=1 -DCOARSE_TASKS": 380_000,
    "-DSLOTS=1 -DEXPIRY": 600_000,
    "-DEXPIRY -DCOARSE_TASKS -DONLY_OVERTAKEN=0": 2_400_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DBATCHES=2 -DEXPIRY -DRESTORE -DONLY_OVERTAKEN=0": 190_000,
    "-DSLOTS=1 -DHEAD_CUT": 390_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DBATCHES=2 -DTRIM": 1_100_000,
    "-DSINK=2 -DSLOTS=1 -DTRIM": 190_000,
    "-DSLOTS=1 -DEND_MARKER_MISSING": 230_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=5": 115_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=8": 115_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=9": 180_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=10": 85_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=1 -DEXPIRY": 850_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=2 -DEXPIRY": 550_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=3 -DEXPIRY": 590_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=11 -DEXPIRY": 830_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DBATCHES=2 -DCHANGED=1 -DONLY_OVERTAKEN=1": 750_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DBATCHES=2 -DCHANGED=2 -DONLY_OVERTAKEN=1": 300_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DRUNS=3 -DCHANGED=2 -DONLY_OVERTAKEN=1": 300_000,
    "-DSLOTS=1 -DCOARSE_TASKS -DRUNS=3 -DCHANGED=3 -DONLY_OVERTAKEN=1": 340_000,
    "-DCOARSE_TASKS -DCHANGED=9 -DONLY_OVERTAKEN=0": 800_000,
}
"""Larger ones, left to ``make test-long``."""

HARMFUL = [
    # rule left out, in which size, what spin may find first
    ("FIRST_DECISION", "-DSLOTS=1 -DRUNS=1 -DORDERS=1", "twice"),
    ("VOID_WHEN_OVERTAKEN", "-DSLOTS=1", "twice stuck"),
    ("FIRST_OUTCOME", "-DSLOTS=1 -DRUNS=3 -DCOARSE_TASKS -DONLY_OVERTAKEN=2", "stuck"),
    ("OUTCOME_APPENDED", "-DSLOTS=1", "stuck"),
    ("READ_BACK", "-DSLOTS=1", "twice"),
    ("START_RECORD_FIRST", "-DSLOTS=1", "twice stuck"),
    ("ONLY_LISTED", "-DSLOTS=1", "twice"),
    ("ONLY_LISTED", "-DSINK=2 -DSLOTS=1", "twice"),
    ("MARKER_INSIDE", "-DSLOTS=1", "twice"),
    ("MARKER_INSIDE", "-DSINK=2 -DSLOTS=1", "twice"),
    ("ATTEMPT_IN_KEY", "-DSINK=2 -DRUNS=1", "stuck"),
    ("TOMBSTONE", "-DSINK=2 -DSLOTS=1", "twice"),
    ("RIVALS", "-DSINK=2 -DSLOTS=1 -DTRIES=2 -DRUNS=1", "stuck"),
    ("ORPHANS_IN_BEGIN", "-DSINK=2 -DSLOTS=1 -DTRIES=2 -DRUNS=1", "stuck"),
    ("SWEEP", "-DSINK=2 -DSLOTS=1", "orphaned"),
    ("MISSING_ONLY", "-DRUNS=1", "twice"),
    ("MULTISET", "-DRUNS=1 -DEQUAL_FINGERPRINTS", "lost"),
    ("LAST_DECISION_ONLY", "-DSLOTS=1", "twice stuck"),
    ("PLAN_PER_MANAGER", "-DSINK=3 -DSLOTS=1 -DRUNS=1", "twice"),
    ("ONE_DECISION", "-DSINK=3 -DSLOTS=1 -DRUNS=1", "one_side_only lost"),
    ("CHECK", "-DCALM -DSLOTS=1 -DRUNS=1", "wasted"),
    ("LOOK_BEFORE_ABORT", "-DCALM -DSLOTS=1 -DRUNS=1", "wasted"),
    ("EXACT_ABORT", "-DCALM -DSLOTS=1 -DORDERS=1 -DONLY_OVERTAKEN=0", "wasted"),
    ("ZOMBIE_CHECK", "-DCALM -DSLOTS=1 -DTRIES=2 -DBATCHES=2 -DRUNS=1", "wasted"),
    ("OTHER_ID_FIRST", "-DCALM -DSLOTS=1 -DTRIES=2 -DBATCHES=2 -DRUNS=1", "wasted"),
    ("GONE_IS_UNKNOWN", "-DSLOTS=1 -DRUNS=1 -DEXPIRY", "twice"),
    ("PROVEN_BY_SPARK", "-DSLOTS=1 -DRUNS=1 -DEXPIRY", "stuck"),
    ("CUT_IS_UNREADABLE", "-DSLOTS=1 -DRUNS=1 -DHEAD_CUT", "twice"),
    ("SNAPSHOT_HAS_RUNS", "-DSLOTS=1 -DRUNS=1 -DTRIM", "twice"),
    ("SNAPSHOT_HAS_DECISIONS", "-DSLOTS=1 -DRUNS=1 -DTRIM", "twice"),
    ("SNAPSHOT_HAS_OUTCOMES", "-DSLOTS=1 -DCOARSE_TASKS -DTRIM", "stuck"),
    ("VOID_BELOW -DNO_RULE_REFUSE_BELOW", "-DSLOTS=1 -DRUNS=1 -DBATCHES=2 -DEXPIRY -DRESTORE", "twice"),
    ("LOOK_FOR_END_MARKERS", "-DSLOTS=1 -DRUNS=1 -DEND_MARKER_MISSING", "twice"),
    ("VOID_WHEN_OVERTAKEN", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=1", "twice stuck"),
    ("VOID_BY_LIFE", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=2", "twice"),
    ("START_IN_OLD_LOG", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=4", "twice"),
    ("ADOPT_FINISHED", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=2", "twice"),
    ("ADOPT_NEWEST", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=3", "twice"),
    ("LOOK_AGAIN", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=3", "twice"),
    ("ADOPTED_IS_OVER", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=3", "twice"),
    ("NEW_LIFE", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=9", "lost"),
    ("NEW_LIFE -DNO_RULE_PLAN_BY_SINK", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=11", "lost"),
]

FIRST = 8
"""So many of each list run in ``make test``; each takes seconds, most of them gcc's. ``make test-long`` runs the others."""

NOT_FOR_SAFETY = [
    # rule left out, in which size nothing goes wrong: it saves work or waiting, and the README says so
    ("CHECK", "-DSLOTS=1"),
    ("EXACT_ABORT", "-DSLOTS=1 -DRUNS=1 -DORDERS=1"),
    ("OUTCOME_AT_COMMIT", "-DSLOTS=1 -DRUNS=1 -DEXPIRY"),
    ("VOID_BELOW", "-DSLOTS=1 -DRUNS=1 -DBATCHES=2 -DEXPIRY -DRESTORE"),
    ("REFUSE_BELOW", "-DSLOTS=1 -DRUNS=1 -DBATCHES=2 -DEXPIRY -DRESTORE"),
]

NOT_FOR_SAFETY_LONG = [
    ("LOOK_BEFORE_ABORT", "-DSLOTS=1"),
    ("EXACT_ABORT", "-DRUNS=1 -DORDERS=1"),
    ("OTHER_ID_FIRST", "-DSLOTS=1"),
    ("ZOMBIE_CHECK", "-DSLOTS=1"),
    ("ZOMBIE_CHECK", "-DSINK=2 -DSLOTS=1"),
    ("TWO_IDS", "-DSLOTS=1"),
    ("SWEEP", "-DSLOTS=1"),
    ("PLAN_BY_SINK", "-DSLOTS=1 -DCOARSE_TASKS -DCHANGED=11"),
]

WAITS_FOR_EVER = (
    "-DNO_RULE_END_OTHER_ID -DNOBODY_DIES -DUNASKED_ABORTS=1 -DBATCHES=2 -DTRIES=2 -DCOARSE_TASKS "
    "-DONLY_OVERTAKEN=0 -DONLY_RETRIED=1"
)


@cache
def search(options: str) -> Verification:
    """Return the result of one search; in a small one gcc's time counts more than the verifier's."""
    return verify(options.split(), optimise="-O1" if options in COMPLETE_LONG else "-O0")


def require_clean(found: Verification) -> None:
    assert (found.violated, found.trace) == ("", ())
    assert found.complete


@pytest.mark.parametrize("options", list(COMPLETE)[:FIRST])
def test_no_violation_in_any_state(options: str) -> None:
    require_complete(options)


@pytest.mark.long
@pytest.mark.parametrize("options", list(COMPLETE)[FIRST:])
def test_no_violation_in_any_state_of_the_other_sizes(options: str) -> None:
    require_complete(options)


def require_complete(options: str) -> None:
    found = search(options)
    require_clean(found)
    assert found.states >= COMPLETE[options]


@pytest.mark.long
@pytest.mark.parametrize("options", COMPLETE_LONG)
def test_no_violation_in_any_state_of_a_larger_size(options: str) -> None:
    found = search(options)
    require_clean(found)
    assert found.states >= COMPLETE_LONG[options]


@pytest.mark.long
@pytest.mark.parametrize("sink", ["", "-DSINK=2"])
def test_no_step_of_run_and_task_is_dead(sink: str) -> None:
    # A step that no size comes to proves nothing: every one is taken in at least one of them, but those of the quiet restart
    # and the end of a run, where it stands for ever.
    # Both sinks together take the same steps. In their sizes no driver is fenced while it commits, so they are not asked.
    lines = [
        (number, line) for file in MODEL.glob("*.pml") for number, line in enumerate(file.read_text().splitlines(), 1)
    ]
    quiet = {number for number, line in lines if ":: quiet ->" in line or "end_of_run: false" in line}
    sizes = [o for o in (*COMPLETE, *COMPLETE_LONG) if sink in o and ("SINK" in o) == bool(sink)]
    never = frozenset.intersection(*(search(options).unreached for options in sizes))
    assert [(process, line) for process, line in never if process in ("Run", "Task") and line not in quiet] == []


@pytest.mark.parametrize(("rule", "options", "harm"), HARMFUL[:FIRST])
def test_without_the_rule_spin_finds_a_counterexample(rule: str, options: str, harm: str) -> None:
    require_harm(rule, options, harm)


@pytest.mark.long
@pytest.mark.parametrize(("rule", "options", "harm"), HARMFUL[FIRST:])
def test_without_each_other_rule_spin_finds_a_counterexample(rule: str, options: str, harm: str) -> None:
    require_harm(rule, options, harm)


def require_harm(rule: str, options: str, harm: str) -> None:
    found = search(f"-DNO_RULE_{rule} {options}")
    assert found.violated in harm.split()
    assert found.trace[0] == "run 1 starts"


def test_without_ending_the_slots_other_transaction_a_task_waits_for_ever() -> None:
    # A large size: this order of trying comes to it soon, and others in half a minute or more.
    found = verify(WAITS_FOR_EVER.split(), seed=6)
    assert found.violated == "invalid end state"


@pytest.mark.long
@pytest.mark.parametrize(("rule", "options"), NOT_FOR_SAFETY)
def test_without_the_rule_nothing_is_lost_or_doubled(rule: str, options: str) -> None:
    require_clean(search(f"-DNO_RULE_{rule} {options}"))


@pytest.mark.long
@pytest.mark.parametrize(("rule", "options"), NOT_FOR_SAFETY_LONG)
def test_without_the_rule_nothing_is_lost_or_doubled_in_a_larger_size(rule: str, options: str) -> None:
    require_clean(search(f"-DNO_RULE_{rule} {options}"))


def test_every_rule_of_the_model_is_left_out_once() -> None:
    text = "".join(file.read_text() for file in MODEL.glob("*.pml"))
    left_out = [rule for rule, *_ in HARMFUL] + [rule for rule, _ in (*NOT_FOR_SAFETY, *NOT_FOR_SAFETY_LONG)]
    named = {name for rule in left_out for name in rule.split(" -DNO_RULE_")} | {"END_OTHER_ID"}
    assert set(re.findall(r"NO_RULE_(\w+)", text)) == named


def test_readme_tells_of_every_rule_and_every_switch() -> None:
    text = "".join(file.read_text() for file in MODEL.glob("*.pml"))
    switches = set(re.findall(r"#(?:ifdef|ifndef) (\w+)", text)) | set(re.findall(r"defined\((\w+)\)", text))
    readme = (MODEL / "README.md").read_text()
    assert [name for name in sorted(switches) if f"`{name.removeprefix('NO_RULE_')}`" not in readme] == []
