"""Cards about transactions that an operator must look at: one for each verdict, application, batch and condition of a commit."""

from __future__ import annotations

from indoubt.collector.assess.attention.cards import card
from indoubt.collector.assess.attention.pipelines import goes_on
from indoubt.collector.assess.findings import Severity
from indoubt.collector.assess.remedies import order_for, remedy_of_pipeline
from indoubt.collector.assess.rules.readers import Waits
from indoubt.collector.assess.situation import Situation
from indoubt.collector.assess.transaction_groups import TransactionGroup
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.orders import PIPELINE_KEY
from indoubt.lifecycle.resource_manager_kinds import DATABASES
from indoubt.lifecycle.rows.attention import Attention, AttentionKind, Remedy
from indoubt.lifecycle.verdicts import Verdict

_CRITICAL = frozenset({Verdict.COMMIT_IT, Verdict.LOST, Verdict.HANGING, Verdict.UNKNOWN})
_BADGES = {Verdict.FOREIGN: "foreign, stuck"}


def transaction_cards(situation: Situation, waits: Waits) -> list[Attention]:
    """Return a card for each group of transactions that require an action, in the order given."""
    restarts = {
        driver.run.facts.pipeline: goes_on(driver.restart, situation.now_ms)
        for driver in situation.drivers
        if driver.restart is not None
    }
    return [_card(group, situation, waits, restarts.get(group.pipeline, "")) for group in situation.required]


def _card(group: TransactionGroup, situation: Situation, waits: Waits, restarts: str) -> Attention:
    batch = "" if group.batch is None else f"|{group.batch}"
    condition = group.condition and f"|{group.condition}"
    is_lost = group.verdict is Verdict.LOST
    remedy = remedy_of_pipeline(situation, group.pipeline) if is_lost and group.managed else order_for(group.judgements)
    follows = consequence(group)
    return card(
        AttentionKind.TRANSACTIONS,
        f"transactions:{group.verdict.value}|{group.pipeline}{batch}{condition}",
        _BADGES.get(group.verdict, group.verdict.value),
        verdict=group.verdict,
        certainty=group.certainty,
        severity=Severity.CRITICAL if group.verdict in _CRITICAL else Severity.WARNING,
        pipeline=group.pipeline,
        batch=group.batch,
        keys=group.keys,
        headline=headline(group),
        waits=() if is_lost else waits.behind(group.keys, group.partitions),
        since_ms=group.since_ms,
        deadline_ms=group.deadline_ms,
        consequence=f"{restarts} {follows}" if restarts and group.managed else follows,
        remedy=remedy,
        target=PIPELINE_KEY + group.pipeline if remedy in (Remedy.RESTART, Remedy.START) else "",
        rows=group.rows,
        partitions=group.partitions,
    )


def headline(group: TransactionGroup) -> str:
    """Return one sentence that says what stands and what follows from it."""
    batch = "" if group.batch is None else f", batch {group.batch}"
    what = f"{counted(len(group.keys), 'transaction')} of {group.pipeline}{batch}"
    condition = group.condition
    is_single = len(group.keys) == 1
    is_, holds = ("is", "holds") if is_single else ("are", "hold")
    held = "data" if group.rows is None else counted(group.rows, "row")
    match group.verdict:
        case Verdict.COMMIT_IT if not group.managed:
            them = "it" if is_single else "them"
            belong = "belongs" if is_single else "belong"
            checkpoint = f"Flink checkpoint {condition}" if condition else "a Flink checkpoint that counts"
            only_if = f" only if the job goes on from {condition} or a later one" if condition else ""
            return f"{what} {belong} to {checkpoint} and {is_} not committed: commit {them}{only_if}, an abort would lose data."
        case Verdict.ABORT_IT if not group.managed:
            return f"{what} {is_} open, and the owner writes the rows again: abort, nothing is lost."
        case Verdict.COMMIT_IT:
            them = "it" if is_single else "them"
            return f"{what} {is_} decided but not committed: commit {them}, an abort would lose {held}."
        case Verdict.LOST:
            was = "was" if is_single else "were"
            missing = "" if group.rows is None else f", and {held} {'is' if group.rows == 1 else 'are'} missing"
            return f"{what} {was} decided and then aborted{missing}: the batch must be replayed."
        case Verdict.ABORT_IT:
            return f"{what} {is_} undecided and the driver is gone: abort, the batch will be replayed."
        case Verdict.AT_RISK:
            return f"{what} {'has' if is_single else 'have'} less time left than a recovery of the pipeline needs."
        case Verdict.HANGING:
            return f"{what} {holds} partitions open that no coordinator will end."
        case Verdict.UNKNOWN:
            return f"{what} cannot be judged: evidence is missing."
        case Verdict.FOREIGN:
            return f"{what} {is_} open for long: only its owner knows what an abort would lose."
        case Verdict.IN_PROGRESS | Verdict.SETTLED:
            return f"{what} {'needs' if is_single else 'need'} nothing."


def consequence(group: TransactionGroup) -> str:
    """Return one sentence that says what happens if nobody acts."""
    has_timeout = group.deadline_ms is not None
    one = group.rows == 1
    rows = "the rows" if group.rows is None else counted(group.rows, "row")
    are = "is" if one else "are"
    match group.verdict:
        case Verdict.COMMIT_IT if not has_timeout:
            return f"It stays prepared: {rows} {are} invisible and its locks are held until it is committed."
        case Verdict.COMMIT_IT if group.managed:
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
        case Verdict.FOREIGN if all(key.partition(":")[0] in DATABASES for key in group.keys):
            return "It stays prepared and holds its locks until its owner ends it."
        case _:
            return "It stays open, and what it holds back stays invisible, until its owner ends it."
