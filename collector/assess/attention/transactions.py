"""Cards about transactions that an operator must look at: one for each verdict, application, batch and condition of a commit."""

from __future__ import annotations

from indoubt.collector.assess.attention.cards import card
from indoubt.collector.assess.attention.pipelines import goes_on
from indoubt.collector.assess.findings import Severity, application_group
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
    condition = "|job" if group.is_left_to_job else group.condition and f"|{group.condition}"
    is_lost = group.verdict is Verdict.LOST
    remedy = remedy_of_pipeline(situation, group.pipeline) if is_lost and group.managed else order_for(group.judgements)
    follows = consequence(group)
    return card(
        kind=AttentionKind.TRANSACTIONS,
        key=f"transactions:{group.verdict.value}|{group.pipeline}{batch}{condition}",
        badge=_BADGES.get(group.verdict, group.verdict.value),
        group=application_group(group.pipeline),
        verdict=group.verdict,
        certainty=group.certainty,
        severity=(Severity.CRITICAL if group.verdict in _CRITICAL else Severity.WARNING).value,
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
    """Return what happened, in one or two sentences."""
    batch = "" if group.batch is None else f", batch {group.batch}"
    number = counted(len(group.keys), "transaction")
    what, condition = f"{number} of {group.pipeline}{batch}", group.condition
    is_single = len(group.keys) == 1
    is_, holds, them = ("is", "holds", "it") if is_single else ("are", "hold", "them")
    held = "data" if group.rows is None else counted(group.rows, "row")
    match group.verdict:
        case Verdict.COMMIT_IT if group.is_left_to_job:
            return f"{what} {is_} part of a Flink checkpoint and not committed. Restart the job from it: no order commits {them}."
        case Verdict.COMMIT_IT if not group.managed:
            belong = "belongs" if is_single else "belong"
            checkpoint = f"Flink checkpoint {condition}" if condition else "a Flink checkpoint that counts"
            only_if = f" only if the job goes on from {condition} or a later one" if condition else ""
            return f"{what} {belong} to {checkpoint} and {is_} not committed. Commit {them}{only_if}: an abort would lose data."
        case Verdict.ABORT_IT if not group.managed:
            return f"{what} {is_} open, and the owner writes the rows again. Abort {them}: nothing is lost."
        case Verdict.COMMIT_IT:
            subject = f"batch {group.batch}" if group.batch is not None else number
            return (
                f"{group.pipeline} decided to commit {subject} ({held}) and has not done it. Commit it: that is safe."
            )
        case Verdict.LOST:
            subject = f"Batch {group.batch} of {group.pipeline}" if group.batch is not None else what
            missing = "its rows are" if group.rows is None else f"{held} {'is' if group.rows == 1 else 'are'}"
            return f"{subject} was decided and then aborted: {missing} missing until the batch is written again."
        case Verdict.ABORT_IT:
            return f"{what} {is_} undecided and the driver is gone. Abort {them}: the batch is written again."
        case Verdict.AT_RISK:
            return f"{what} {'has' if is_single else 'have'} less time left than a restart of the pipeline needs."
        case Verdict.HANGING:
            return f"{what} {holds} partitions open, and no coordinator will end {them}."
        case Verdict.UNKNOWN:
            return f"{what} cannot be judged: evidence is missing."
        case Verdict.FOREIGN:
            some = "a transaction" if is_single else number
            return f"{group.pipeline} left {some} open for long. Only its owner knows what an abort loses: ask before you abort."
        case Verdict.IN_PROGRESS | Verdict.SETTLED:
            return f"{what} {'needs' if is_single else 'need'} nothing."


def consequence(group: TransactionGroup) -> str:
    """Return what happens if nobody acts, in one or two sentences."""
    has_timeout = group.deadline_ms is not None
    rows = "the rows" if group.rows is None else counted(group.rows, "row")
    these = "these rows" if group.rows is None else "this row" if group.rows == 1 else f"these {group.rows:,} rows"
    it = "it" if group.rows == 1 else "them"
    has_locks = any(key.partition(":")[0] in DATABASES for key in group.keys)
    held, holds = (" and its locks are held", " and holds its locks") if has_locks else ("", "")
    match group.verdict:
        case Verdict.COMMIT_IT if not has_timeout:
            return f"It stays prepared: its rows are invisible{held} until it is committed."
        case Verdict.COMMIT_IT if group.managed:
            return f"Kafka throws {these} away. A restart can write {it} again."
        case Verdict.COMMIT_IT:
            return f"Kafka throws {these} away. The job counts {it} as written and does not write {it} again."
        case Verdict.LOST:
            return f"Readers do not see {rows} until the pipeline starts again and writes the batch again."
        case Verdict.HANGING:
            return "Readers of its partitions wait for ever: no timeout ends it."
        case Verdict.ABORT_IT if has_timeout:
            return "Readers wait until Kafka aborts it. Nothing is lost."
        case Verdict.ABORT_IT:
            return f"It stays prepared{holds} until it is ended. Nothing is lost."
        case Verdict.AT_RISK:
            return "If its driver stops now, Kafka aborts it before a restart can finish it."
        case Verdict.UNKNOWN if has_timeout:
            return "Kafka aborts it, which may lose rows. No order is advised until the evidence is back."
        case Verdict.UNKNOWN:
            return f"It stays prepared{holds}. No order is advised until the evidence is back."
        case Verdict.FOREIGN if has_timeout:
            return "Readers wait until Kafka aborts it; only its owner knows what that loses."
        case Verdict.FOREIGN if all(key.partition(":")[0] in DATABASES for key in group.keys):
            return "It stays prepared and holds its locks until its owner ends it."
        case _:
            return "It stays open, and what it holds back stays invisible, until its owner ends it."
