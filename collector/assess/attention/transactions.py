"""Cards about transactions: one for each verdict, application, batch and condition of a commit."""

from __future__ import annotations

from collector.assess.attention.action_required import RequiredGroup
from collector.assess.attention.pipelines import goes_on
from collector.assess.attention.pipelines import remedy_of as remedy_of_pipeline
from collector.assess.remedies import order_for
from collector.assess.rules.readers import Waits
from collector.assess.situation import CRITICAL, WARNING, Situation
from lifecycle.counted_nouns import counted
from lifecycle.orders import PIPELINE_KEY
from lifecycle.resource_manager_kinds import DATABASES
from lifecycle.rows.attention import Attention, AttentionKind, Remedy, WaitingGroup
from lifecycle.rows.overview import ActionRequired
from lifecycle.verdicts import Verdict

_CRITICAL = frozenset({Verdict.COMMIT_IT, Verdict.LOST, Verdict.HANGING, Verdict.UNKNOWN})
_BADGES = {Verdict.FOREIGN: "foreign, stuck"}


def transaction_cards(situation: Situation, waits: Waits) -> list[Attention]:
    """Return a card for each group of transactions that require an action, in the order given."""
    of_pipelines = {
        driver.run.facts.pipeline: (
            remedy_of_pipeline(driver, situation.startable),
            goes_on(driver.restart, situation.now_ms) if driver.restart is not None else "",
        )
        for driver in situation.drivers
    }
    found = []
    for group in situation.required:
        needed = group.needed
        of_pipeline = of_pipelines.get(needed.pipeline, (Remedy.OPEN, ""))
        waiting = waits.behind(needed.keys, needed.partitions) if needed.verdict is not Verdict.LOST else ()
        batch = "" if needed.batch is None else f"|{needed.batch}"
        condition = group.condition and f"|{group.condition}"
        key = f"transactions:{needed.verdict.value}|{needed.pipeline}{batch}{condition}"
        found.append(_card(key, group, waiting, of_pipeline))
    return found


def _card(
    key: str, group: RequiredGroup, waits: tuple[WaitingGroup, ...], of_pipeline: tuple[Remedy, str]
) -> Attention:
    needed, (remedy_of_its_pipeline, restarts) = group.needed, of_pipeline
    remedy = remedy_of(group, remedy_of_its_pipeline)
    follows = consequence(needed, ours=group.ours)
    return Attention(
        key=key,
        kind=AttentionKind.TRANSACTIONS,
        badge=_BADGES.get(needed.verdict, needed.verdict.value),
        verdict=needed.verdict,
        certainty=needed.certainty,
        severity=CRITICAL if needed.verdict in _CRITICAL else WARNING,
        pipeline=needed.pipeline,
        batch=needed.batch,
        keys=needed.keys,
        headline=needed.headline,
        waits=waits,
        since_ms=group.since_ms,
        deadline_ms=needed.deadline_ms,
        consequence=f"{restarts} {follows}" if restarts and group.ours else follows,
        remedy=remedy,
        target=PIPELINE_KEY + needed.pipeline if remedy in (Remedy.RESTART, Remedy.START) else "",
        rows=needed.rows,
        partitions=needed.partitions,
        alerts=(),
    )


def remedy_of(group: RequiredGroup, of_pipeline: Remedy) -> Remedy:
    """Return what to do about a group: an order only where it is offered for every one of its transactions.

    ``of_pipeline``: what makes its pipeline go on, which then replays what was lost.
    """
    return of_pipeline if group.needed.verdict is Verdict.LOST and group.ours else order_for(group.judgements)


def consequence(needed: ActionRequired, *, ours: bool) -> str:
    """Return one sentence that says what happens if nobody acts."""
    has_timeout = needed.deadline_ms is not None
    one = needed.rows == 1
    rows = "the rows" if needed.rows is None else counted(needed.rows, "row")
    are = "is" if one else "are"
    match needed.verdict:
        case Verdict.COMMIT_IT if not has_timeout:
            return f"It stays prepared: {rows} {are} invisible and its locks are held until it is committed."
        case Verdict.COMMIT_IT if ours:
            return f"The broker aborts it at its timeout, and {rows} {are} lost until the batch is replayed."
        case Verdict.COMMIT_IT:
            return f"The broker aborts it at its timeout, and {rows}, which the job counts as written, {are} lost."
        case Verdict.LOST:
            return f"Readers never see {rows} until the pipeline starts again and replays the batch."
        case Verdict.HANGING:
            return "Readers of its partitions wait for ever: no timeout ends it."
        case Verdict.ABORT_IT if has_timeout:
            return "Readers wait until the broker aborts it at its timeout; nothing is lost."
        case Verdict.ABORT_IT:
            return "It stays prepared and holds its locks until it is ended; nothing is lost."
        case Verdict.AT_RISK:
            return "If its driver stops now, the broker aborts it before a restart can finish it."
        case Verdict.UNKNOWN if has_timeout:
            return "The broker aborts it at its timeout, which may lose rows. No order is advised until the evidence is back."
        case Verdict.UNKNOWN:
            return "It stays prepared and holds its locks. No order is advised until the evidence is back."
        case Verdict.FOREIGN if has_timeout:
            return "Readers wait until the broker aborts it at its timeout; only its owner knows what that loses."
        case Verdict.FOREIGN if all(key.partition(":")[0] in DATABASES for key in needed.keys):
            return "It stays prepared and holds its locks until its owner ends it."
        case _:
            return "It stays open, and what it holds back stays invisible, until its owner ends it."
