"""What the archive says beside what was observed: whose transactions they are, and which are lost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from indoubt.collector.facts import transaction_join
from indoubt.collector.facts.state import State
from indoubt.collector.history.archiver import Knowledge
from indoubt.collector.history.rollups import Aborted
from indoubt.collector.records.application_ids import form_of
from indoubt.collector.verdicts.data_loss import LossVerdict
from indoubt.collector.views import aborts_and_losses, application_names
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.branch_id import BranchId

NAMES_AT_ONCE = 1_000
"""The state is locked meanwhile."""


def archive_knowledge(current: CurrentState) -> Knowledge:
    """Return what the archive asks."""
    return Knowledge(names=partial(_names, current), lost=partial(_lost, current))


def _names(current: CurrentState, ids: Sequence[str], of_branches: bool) -> list[str]:
    forms = list(ids) if of_branches else [form_of(id_) for id_ in ids]
    known: dict[str, str] = {}
    wanted = list(dict.fromkeys(forms))
    for first in range(0, len(wanted), NAMES_AT_ONCE):
        with current.reading() as state:
            for form in wanted[first : first + NAMES_AT_ONCE]:
                known[form] = _name_of_branch(state, form) if of_branches else application_names.name_of_id(state, form)
    return [known[form] for form in forms]


def _name_of_branch(state: State, name: str) -> str:
    branch = BranchId.parse(name)
    if branch is not None and branch.prefix in state.ledger.prefixes():
        return branch.prefix
    known = next((each for each in state.branches.values() if each.transaction == name), None)
    resource_manager = known.resource_manager if known is not None else ""
    return transaction_join.application(state, resource_manager, name, None).name


def _lost(current: CurrentState) -> list[Aborted]:
    # Memory keeps what is lost as long as nothing wrote it again.
    losses, _ = aborts_and_losses.losses_in_memory(current)
    identities = [
        loss.view.broker.identity
        for loss in losses
        if loss.verdict is LossVerdict.LOST and loss.view.broker is not None
    ]
    return [(each.transaction, each.producer_id, each.start_ms) for each in identities]
