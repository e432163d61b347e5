"""What a replayed batch must write: the rows whose transaction was lost after its decision, and no others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.errors import NotDeterministic
from indoubt.lifecycle.identity import Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPlan:
    """Fingerprints (with repetition) of what one resource manager committed of the batch, and of what it lost."""

    committed: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """An already decided batch, by resource manager: what one of them lost is written again there and nowhere else.

    ``attempts`` are those at this batch whose commit decision counts.
    """

    batch: int
    attempts: tuple[int, ...]
    branches: Mapping[str, BranchPlan]

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return the resource managers in which something is missing."""
        return tuple(name for name, branch in self.branches.items() if branch.missing)

    def is_missing(self, resource_manager: str, fingerprint: str) -> bool:
        """Say whether a slot with these rows is to write them there. Raises NotDeterministic when the batch never held them.

        Missing wins: with equal fingerprints the driver lists only as many handles as are missing.
        """
        branch = self.branches[resource_manager]
        if fingerprint in branch.missing:
            return True
        if fingerprint in branch.committed:
            return False
        raise NotDeterministic(
            f"batch {self.batch} was decided before, and a slot now holds rows (fingerprint {fingerprint}) that it did "
            "not hold then: the query is not deterministic, so what was lost cannot be replayed. Committed rows are "
            "safe. To go on, restore what the query depends on as it was then: its code, its settings (tasks, "
            "task_records, max_offsets_per_trigger), what else it reads. (A new checkpoint directory would write every row again.)"
        )

    def skipped(self, fingerprint: str) -> tuple[str, ...]:
        """Return the resource managers that a slot with these rows writes nothing to. Raises NotDeterministic."""
        return tuple(name for name in self.branches if not self.is_missing(name, fingerprint))

    def choose(self, prepared: Sequence[Handle], slots: Iterable[str]) -> tuple[list[Handle], list[Handle]]:
        """Return (handles to list in the decision, surplus to roll back): as many per fingerprint as are missing.

        ``slots`` are the fingerprints of all slots, each once.
        Raises NotDeterministic when the batch as a whole does not hold the rows that it held before.
        """
        now = Counter(slots)
        chosen: list[Handle] = []
        surplus: list[Handle] = []
        for name, branch in self.branches.items():
            before = Counter(branch.committed) + Counter(branch.missing)
            if now != before:
                raise NotDeterministic(
                    f"batch {self.batch} was decided before with other rows ({name}): fingerprints then {_text(before)}, "
                    f"now {_text(now)}"
                )
            wanted = Counter(branch.missing)
            for handle in prepared:
                if handle.resource_manager != name:
                    continue
                taken = wanted[handle.fingerprint] > 0
                wanted[handle.fingerprint] -= taken
                (chosen if taken else surplus).append(handle)
            if wanted.total() > 0:
                raise NotDeterministic(
                    f"batch {self.batch}: no task prepared the missing rows {_text(+wanted)} ({name})"
                )
        return chosen, surplus

    def to_json(self) -> str:
        """Return it as text: it travels to the tasks as an option."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ReplayPlan | None:
        """Return the plan, or None for an empty text."""
        if not text:
            return None
        fields = json.loads(text)
        branches = {
            name: BranchPlan(committed=tuple(branch["committed"]), missing=tuple(branch["missing"]))
            for name, branch in fields["branches"].items()
        }
        return cls(batch=fields["batch"], attempts=tuple(fields["attempts"]), branches=branches)


def plan_replay(
    ledger: DecisionLedger, prefix: str, checkpoint_id: str, settled: dict[str, Settled]
) -> ReplayPlan | None:
    """Return the plan for the last batch of this checkpoint id that was decided under this prefix, or None when nothing was.

    ``settled`` holds, by handle key, the outcomes known to this run: from the log up to its start, and its own.
    Committed are the committed handles of all decisions of the batch that count. Missing are the lost handles of the
    last one: a replay lists all that was missing, in whichever resource manager.
    """
    commits = [
        decision for _, decision in sorted(ledger.commit_decisions(prefix, checkpoint_id), key=lambda pair: pair[0])
    ]
    if not commits:
        return None
    batch = max(decision.batch_attempt.batch for decision in commits)
    decisions = [decision for decision in commits if decision.batch_attempt.batch == batch]
    names = dict.fromkeys(handle.resource_manager for decision in decisions for handle in decision.handles)

    def ended(handles: Iterable[Handle], how: Settled, name: str) -> tuple[str, ...]:
        return tuple(h.fingerprint for h in handles if settled.get(h.key) is how and h.resource_manager == name)

    everything = [handle for decision in decisions for handle in decision.handles]
    branches = {
        name: BranchPlan(
            committed=ended(everything, Settled.COMMITTED, name),
            missing=ended(decisions[-1].handles, Settled.LOST, name),
        )
        for name in names
    }
    return ReplayPlan(
        batch=batch, attempts=tuple(decision.batch_attempt.attempt for decision in decisions), branches=branches
    )


def _text(fingerprints: Counter[str]) -> str:
    return ", ".join(f"{count} x {fingerprint}" for fingerprint, count in sorted(fingerprints.items())) or "none"
