"""The modules that are changed, each with the tests that judge it: first the quick ones, then the slow ones."""

from __future__ import annotations

VERDICTS = "tests/unit/collector/verdicts"

JUDGED: dict[str, tuple[str, ...]] = {
    "collector/verdicts/verdict_rules.py": (
        f"{VERDICTS}/test_verdict_rules.py",
        f"{VERDICTS}/test_claims.py",
        f"{VERDICTS}/test_read_process_write.py",
        f"{VERDICTS}/test_flink_commits.py",
    ),
}
