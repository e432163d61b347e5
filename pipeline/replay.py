"""What a replayed batch must write: the rows whose transaction was lost after its decision, and no others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from lifecycle.decisions import DecisionLedger, Settled
from lifecycle.errors import NotDeterministic
from lifecycle.identity import Handle


class SlotAction(Enum):
    """What a task does with the rows it drained."""

    PREPARE = "prepare"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """Fingerprints (with repetition) of an already decided batch: what was committed and what is missing."""

    batch: int
    committed: tuple[str, ...]
    missing: tuple[str, ...]

    def action(self, fingerprint: str) -> SlotAction:
        """Say what a slot with these rows does. Raises NotDeterministic when the batch never held them.

        Missing wins: with equal fingerprints the driver lists only as many handles as are missing.
        """
        if fingerprint in self.missing:
            return SlotAction.PREPARE
        if fingerprint in self.committed:
            return SlotAction.SKIP
        raise NotDeterministic(
            f"batch {self.batch} was decided before, and a slot now holds rows (fingerprint {fingerprint}) that it did "
            "not hold then: the query is not deterministic, so what was lost cannot be replayed. Committed rows are "
            "safe; to go on, restore what the query depends on, or start with a new checkpoint directory"
        )

    def choose(self, prepared: Sequence[Handle], skipped: Iterable[str]) -> tuple[list[Handle], list[Handle]]:
        """Return (handles to list in the decision, surplus to roll back): as many per fingerprint as are missing.

        Raises NotDeterministic when the batch as a whole does not hold the rows that it held before.
        """
        now = Counter([*(handle.fingerprint for handle in prepared), *skipped])
        before = Counter(self.committed) + Counter(self.missing)
        if now != before:
            raise NotDeterministic(
                f"batch {self.batch} was decided before with other rows: fingerprints then {_text(before)}, now {_text(now)}"
            )
        wanted = Counter(self.missing)
        chosen: list[Handle] = []
        surplus: list[Handle] = []
        for handle in prepared:
            if wanted[handle.fingerprint] > 0:
                wanted[handle.fingerprint] -= 1
                chosen.append(handle)
            else:
                surplus.append(handle)
        if wanted.total() > 0:
            raise NotDeterministic(f"batch {self.batch}: nobody prepared the missing rows {_text(+wanted)}")
        return chosen, surplus

    def to_json(self) -> str:
        """Return it as text: it travels to the tasks as an option."""
        return json.dumps({"batch": self.batch, "committed": self.committed, "missing": self.missing})

    @classmethod
    def from_json(cls, text: str) -> ReplayPlan | None:
        """Return the plan, or None for an empty text."""
        if not text:
            return None
        fields = json.loads(text)
        return cls(batch=fields["batch"], committed=tuple(fields["committed"]), missing=tuple(fields["missing"]))


def plan_replay(ledger: DecisionLedger, life: str, settled: dict[str, Settled]) -> ReplayPlan | None:
    """Return the plan for the last decided batch of this life, or None when nothing was decided.

    ``settled`` holds, by handle key, the outcomes known to this run: from the log up to its start, and its own.
    Missing are the lost handles of the batch's last decision that counts; committed those of all of them.
    """
    batches = [decision.about.batch for decision in ledger.life_commits(life)]
    if not batches:
        return None
    batch = max(batches)
    decisions = ledger.commits_of(life, batch)
    committed = [h.fingerprint for d in decisions for h in d.handles if settled.get(h.key) is Settled.COMMITTED]
    missing = [h.fingerprint for h in decisions[-1].handles if settled.get(h.key) is Settled.LOST]
    return ReplayPlan(batch=batch, committed=tuple(committed), missing=tuple(missing))


def _text(fingerprints: Counter[str]) -> str:
    return ", ".join(f"{count} x {fingerprint}" for fingerprint, count in sorted(fingerprints.items())) or "none"
