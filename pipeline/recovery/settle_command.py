"""``indoubt pipeline settle``: a person records in the decision log how transactions ended whose end nothing proves.

Each is first asked about where it was prepared, as recovery does: the person's word stands only where there is no other proof.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from indoubt.lifecycle.decisions import Decision, Settled
from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.identity import Handle
from indoubt.lifecycle.visible_text import visible
from indoubt.pipeline.checkpoints.checkpoint_directory import FILE, CheckpointDirectory
from indoubt.pipeline.config.sink_settings import REACH_LIMIT_S, SinkSettings
from indoubt.pipeline.recovery.settlement import Settlement, SinkAccess, proven_by_spark


def settle(
    settings: SinkSettings, outcome: Settled | None, who: str, transactions: Collection[str], *, yes: bool
) -> int:
    """Print the unsettled transactions of the directory's last decided batch, settle them with ``yes``; return an exit code.

    ``transactions`` are keys as they are printed; none: all. Raises SettingsError, ResourceManagerError, DecisionLogUnreadable.
    """
    directory = CheckpointDirectory.at(settings)
    identity = directory.read()
    if identity is None or identity.is_taken_over:
        raise SettingsError(f"{directory.location.for_spark} has no {FILE}, so nothing was decided about it yet")
    access = SinkAccess.of(settings, limit_s=REACH_LIMIT_S, decisions_topic=identity.decisions)
    ledger = access.decisions.read_to_end()
    unsettled = ledger.unsettled(identity.prefix, identity.checkpoint_id)
    chosen = _chosen(unsettled, transactions)
    for decision, handle in chosen:
        attempt = decision.batch_attempt
        print(f"{visible(handle.key)} batch={attempt.batch} attempt={attempt.attempt} rows={handle.rows}")
    if not chosen or (outcome is None and not yes):
        return 0
    if outcome is None or not who or not yes:
        print("pipeline: nothing was changed: give --outcome, --who and --yes", file=sys.stderr)
        return 1
    events = access.events(identity.prefix, identity.checkpoint_id, chosen[0][0].batch_attempt.attempt)
    settlement = Settlement(access, identity.sink, who=who, reported=outcome)
    proven = proven_by_spark(ledger, identity.checkpoint_id, directory.progress().finished)
    for key, how in settlement.settle(chosen, events, identity.checkpoint_id, proven).items():
        print(f"{visible(key)} {how.value}")
    events.flush(REACH_LIMIT_S)
    return 0


def _chosen(
    unsettled: Sequence[tuple[Decision, Handle]], transactions: Collection[str]
) -> Sequence[tuple[Decision, Handle]]:
    """Return those that were named. Raises SettingsError for a name of none."""
    if not transactions:
        return unsettled
    strange = set(transactions) - {handle.key for _, handle in unsettled}
    if strange:
        raise SettingsError(
            f"{', '.join(sorted(strange))}: not among the unsettled transactions of the last decided batch"
        )
    return [pair for pair in unsettled if pair[1].key in transactions]
