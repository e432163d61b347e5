"""Changes that alter no verdict, no decision and no answer about loss, each kind with its reason; read again with each review."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.mutants.operators import Mutant


@dataclass(frozen=True, kw_only=True)
class NotCounted:
    """Patterns (``*`` for anything) of a module's path, of a function, of the statement, and of the change ``before -> after``."""

    module: str
    function: str = "*"
    within: str = "*"
    change: str = "*"
    reason: str

    def matches(self, module: str, mutant: Mutant) -> bool:
        change = f"{mutant.before} -> {mutant.after}"
        return (
            fnmatchcase(module, _literal(self.module))
            and fnmatchcase(mutant.function, self.function)
            and fnmatchcase(mutant.within, _literal(self.within))
            and fnmatchcase(change, _literal(self.change))
        )


def _literal(pattern: str) -> str:
    """Let only the asterisk be special: brackets and question marks stand for themselves in code."""
    return "".join(f"[{sign}]" if sign in "[?" else sign for sign in pattern)


VERDICT_RULES = "collector/verdicts/verdict_rules.py"
FLINK_CASES, FLINK_COMMITS = "collector/verdicts/flink_cases.py", "collector/verdicts/flink_commits.py"
LOSS_CASES = "collector/verdicts/loss_cases.py"
FLINK_CHECKPOINTS = "collector/verdicts/flink_checkpoints.py"
FLINK_DUPLICATES = "collector/verdicts/flink_duplicates.py"
FLINK_RIVALS = "collector/verdicts/flink_rivals.py"
FLINK_SET_BACKS = "collector/verdicts/flink_set_backs.py"
FLINK_UNREAD_LISTS = "collector/verdicts/flink_unread_lists.py"
DATA_LOSS = "collector/verdicts/data_loss.py"
ABORT_CAUSES = "collector/verdicts/abort_causes.py"
DRIVER_STATE = "collector/verdicts/driver_state.py"
CHECKPOINT_RULE = "collector/assess/rules/checkpoints.py"
TRANSACTION_RULES = "collector/assess/rules/transactions.py"
PARTITION_RULES = "collector/assess/rules/partitions.py"
SOURCE_RULES = "collector/assess/rules/sources.py"
STANDING_ORDER_RULES = "collector/assess/rules/standing_orders.py"
KNOWN_ENDS = "collector/verdicts/known_ends.py"
READ_PROCESS_WRITE = "collector/verdicts/read_process_write.py"
HANGING = "collector/verdicts/hanging_transactions.py"
TIMEOUT_RISK = "collector/verdicts/timeout_risk.py"
STANDING_ORDERS = "collector/standing_orders/decision.py"
STREAMS_RESTORES = "collector/verdicts/streams_restores.py"
BLOCKED_READERS = "collector/verdicts/blocked_readers.py"
STREAMS_TOPICS = "collector/verdicts/streams_topics.py"
PARTITION_STATE = "collector/verdicts/partition_state.py"
STATE_MACHINE = "collector/alerting/state_machine.py"
JUDGING, CHECKPOINT_GAPS = "collector/verdicts/judging.py", "collector/verdicts/checkpoint_gaps.py"
CONFIRMATION = "collector/orders/confirmation.py"
PLAN, EACH, SELECTION = "collector/orders/plan.py", "collector/orders/each.py", "collector/orders/bulk_selection.py"
GIVEN_ORDERS, FINDINGS = "collector/standing_orders/given_orders.py", "collector/assess/findings.py"
SNAPSHOT_BUILDER = "collector/assess/snapshot_builder.py"
FLINK_FACTS = "collector/records/flink_facts.py"
FLINK_JOB_FACTS = "collector/records/flink_job_facts.py"
FLINK_SINKS = "collector/state/flink_sinks.py"
REPLAYED_BATCHES = "collector/state/replayed_batches.py"
LEDGER = "lifecycle/decision_ledger.py"
PARTS = "lifecycle/decision_parts.py"
VERDICT_CASE = "collector/verdicts/verdict_case.py"
TRANSACTION_VIEW = "collector/state/transaction_view.py"
DAMAGED_LOGS = "pipeline/checkpoints/damaged_logs.py"
SAME = "no difference"
TEXT, TYPED = "wording: which evidence is shown", "a check for the type checker alone"

REVIEWED: tuple[NotCounted, ...] = (
    # A branch with a case has an xid, and one that no checkpoint lists has a job; what is restored has a restore.
    NotCounted(
        module=FLINK_CASES,
        function="_case_of_view",
        change="*xid is not None* -> not case.listings and xid.*",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_CASES, function="_case_of_view", change="may_be_held and case.job -> may_be_held", reason=TYPED
    ),
    NotCounted(
        module=FLINK_CASES, function="_case", change="last_restore is not None and * -> case.began*", reason=TYPED
    ),
    # Jobs whose lists leave the prefix out are not looked at, and neither is the job itself; times are later than 1970.
    NotCounted(module=FLINK_RIVALS, function="rival", change="is_named is None and * -> _has_completed*", reason=SAME),
    NotCounted(
        module=FLINK_RIVALS,
        function="known_by_lists",
        change="* or job == facts.job.job -> job in flink.jobs",
        reason=SAME,
    ),
    NotCounted(
        module=FLINK_RIVALS, function="others_that_ran", change="* or not ran_at(*) -> not ran_at(*)", reason=SAME
    ),
    NotCounted(module=FLINK_RIVALS, function="_related", within="related, waiting = *", change="job -> ", reason=SAME),
    NotCounted(module=FLINK_RIVALS, function="known_by_lists", change="0 -> 1", reason=SAME),
    NotCounted(module=FLINK_RIVALS, function="_has_completed", change="0 -> 1", reason=SAME),
    NotCounted(
        module=FLINK_RIVALS,
        function="others_that_ran",
        change="related is not None -> False",
        reason="performance: a line of work is found once",
    ),
    # What a job's checkpoint is found in is not None; an id of another form that no checkpoint lists was left out before.
    NotCounted(
        module=FLINK_CASES,
        function="FlinkCase._reported",
        change="seen is not None and self.job is not None and * -> seen is not None and self.job.counts(*",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_CASES,
        function="case_of",
        change="listings or facts is None or parsed is None -> listings or facts is None",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_CASES,
        function="case_of",
        change="listings or facts is None or parsed is None -> facts is None or parsed is None",
        reason="performance: of one that a checkpoint lists, no rule asks which other job may have written it",
    ),
    # Without a job none runs, whether its cluster's REST API answers or not; times are later than 1970.
    NotCounted(module=FLINK_CASES, function="_case", change="False -> True", reason=SAME),
    NotCounted(module=FLINK_CASES, function="case_of_branch", within="began_ms = *", change="0 -> 1", reason=SAME),
    # An id of another form that no checkpoint lists has no case.
    NotCounted(module=FLINK_CASES, function="_with_unread_list", change="return case -> return None", reason=SAME),
    # Copies that nothing reads are spared; what stands at the end of a list is as good as that list.
    NotCounted(module=LOSS_CASES, function="loss_inputs", change="wants_flink* -> *", reason=SAME),
    NotCounted(module=LOSS_CASES, function="judged", change="offsets -> True", reason=SAME),
    NotCounted(
        module=LOSS_CASES, function="committed_and_written_again", change="not _was_restored(*) -> False", reason=SAME
    ),
    NotCounted(module=LOSS_CASES, function="_ordered_and_taken", change="ids -> True", reason=SAME),
    # Branches have no broker, and others have one; an id of another form has no case that asks Flink.
    NotCounted(
        module=LOSS_CASES, function="judged", within="*broker is not None and parsed is not None*", reason=TYPED
    ),
    NotCounted(
        module=LOSS_CASES, function="_asks_flink", change="*view.broker is None* -> view.ours or FlinkId*", reason=TYPED
    ),
    NotCounted(module=LOSS_CASES, function="_of_flink", change="order is not None and * -> _is(*", reason=TYPED),
    # Times that are all later than 1970.
    NotCounted(module=LOSS_CASES, function="", within="def *since_ms: int=0*", change="0 -> 1", reason=SAME),
    NotCounted(module=LOSS_CASES, function="_of_flink", within="taken_ms = *", change="0 -> 1", reason=SAME),
    NotCounted(module=LOSS_CASES, function="_ordered_and_taken", within="taken = *", change="0 -> 1", reason=SAME),
    # What has not ended is no input, and what is committing has ended.
    NotCounted(module=LOSS_CASES, function="judged", change="loss is not None -> True", reason=TYPED),
    NotCounted(
        module=LOSS_CASES,
        function="_ordered_and_taken",
        change="*or (ended_ms is None) -> *or (not broker.is_committing)",
        reason=TYPED,
    ),
    NotCounted(
        module=LOSS_CASES,
        function="_ordered_and_taken",
        change="id_ not in ids or * -> FlinkId.parse(id_) is None or *",
        reason="performance: the keys of few are compared",
    ),
    # No other answer is sure, so that a doubt takes nothing from it.
    NotCounted(module=FLINK_CHECKPOINTS, function="_by_job_and_ids", change="found.fate in (*) -> True", reason=SAME),
    # Of the second reading its fate alone is compared.
    NotCounted(
        module=FLINK_CHECKPOINTS, function="_by_job", within="if_pooled = *", change="False -> True", reason=SAME
    ),
    # What holds it has ended, and nothing that is unread is without it.
    NotCounted(module=FLINK_UNREAD_LISTS, change="unread is None or holding is None -> unread is None", reason=TYPED),
    NotCounted(module=FLINK_UNREAD_LISTS, change="holding.ended_ms is None or * -> any(*", reason=TYPED),
    # A doubt that is empty is passed over, as is one that is None.
    NotCounted(module=FLINK_UNREAD_LISTS, function="_restored_since", change="return '' -> return None", reason=SAME),
    # Whoever asks takes none as an empty one.
    NotCounted(
        module="collector/verdicts/flink_successors.py",
        function="several_clusters",
        change="return '' -> return None",
        reason=SAME,
    ),
    # What is listed no more has a time at which it was gone.
    NotCounted(
        module="collector/state/branch_view.py",
        function="_was_ordered_away",
        change="*branch.gone_ms is None or order is None* -> * is not None or order is None*",
        reason=TYPED,
    ),
    # A look at one index spares a look at every job; what follows finds the same.
    NotCounted(module=FLINK_DUPLICATES, function="_listed", within="if producer_id is None*", reason=SAME),
    NotCounted(module=FLINK_DUPLICATES, function="_listed", within="return None", reason=SAME),
    NotCounted(module=FLINK_DUPLICATES, function="_is_older", change="reversed(*) -> list(*)", reason=SAME),
    NotCounted(
        module=FLINK_DUPLICATES, function="evidence", change="* -> found is not None or ended_ms is None", reason=TYPED
    ),
    # Takes and restores are all later than 1970: the first millisecond is as good a default as none.
    NotCounted(
        module=FLINK_SET_BACKS, function="", within="def taken_again_ms(*_ms: int=0*", change="0 -> 1", reason=SAME
    ),
    NotCounted(module=FLINK_SET_BACKS, function="", within="def set_back(*_ms: int=0*", change="0 -> 1", reason=SAME),
    NotCounted(module=VERDICT_RULES, function="_by", reason="wording: the source of an evidence"),
    NotCounted(module=VERDICT_RULES, function="rule_1_settled", within="gone = *", reason=TEXT),
    NotCounted(module=VERDICT_RULES, function="rule_3_lost", within="reported = *", reason=TEXT),
    NotCounted(module=VERDICT_RULES, function="rule_7_foreign", within="if t.broker is not None*", reason=TEXT),
    NotCounted(module=VERDICT_RULES, function="rule_7_foreign", within="evidence.append*", reason=TEXT),
    NotCounted(module=VERDICT_RULES, function="rule_8_commit_overdue", within="if t.broker is not None*", reason=TEXT),
    NotCounted(module=VERDICT_RULES, function="rule_10_end_not_seen", within="unseen = *", reason=TEXT),
    # An event that claims it has a time, so what only events claim has one.
    NotCounted(
        module=VERDICT_RULES,
        function="rule_4_only_reported",
        change="t.updated_ms is not None and * -> *",
        reason=TYPED,
    ),
    # What is listed has a branch, so the first half says nothing that the second does not.
    NotCounted(module=VERDICT_RULES, function="judge", change="t.branch is None* -> *", reason=TYPED),
    NotCounted(
        module=VERDICT_RULES,
        function="rule_13_driver_silent",
        change="case.pipeline is None or last is None -> last is None",
        reason=TYPED,
    ),
    NotCounted(
        module=VERDICT_RULES,
        function="rule_12_newer_run",
        change="offset is None or case.pipeline is None -> offset is None",
        reason=TYPED,
    ),
    NotCounted(module=PARTS, change="1000 -> 1001", reason="performance: how large a part is"),
    NotCounted(module=PARTS, function="encode_within", within="step = *", reason="performance: how large a part is"),
    NotCounted(
        module="lifecycle/decisions.py",
        function="encode",
        change="separators=* -> ",
        reason="performance: spaces between JSON's fields",
    ),
    NotCounted(
        module=FLINK_COMMITS, function="rule_21_restore_not_known", change="case.unattributed -> *e", reason=TEXT
    ),
    # Its own number is among those that list it, so the other half of the condition has answered.
    NotCounted(
        module=FLINK_CASES,
        function="FlinkCase.restored_to",
        change="restore.number < self.first.number -> restore.number <= self.first.number",
        reason=SAME,
    ),
    # Restores that are all later than 1970.
    NotCounted(module=FLINK_COMMITS, function="rule_27_job_runs", change="0 -> 1", reason=SAME),
    NotCounted(
        module=FLINK_COMMITS,
        function="rule_27_job_runs",
        change="case.listings or not runs or case.job is None -> case.listings or not runs",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_COMMITS, function="rule_23_completed", within="if case.is_branch and case.may_run*", reason=TEXT
    ),
    NotCounted(
        module=FLINK_CASES, function="_case", change="facts is not None -> False", reason="wording: a job's name"
    ),
    NotCounted(
        module=FLINK_CASES,
        function="_case",
        change="facts is not None and last_restore is not None -> last_restore is not None",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_CASES,
        function="_case",
        change="listings -> True",
        reason="performance: without a list no restore is asked for",
    ),
    NotCounted(
        module=FLINK_CASES, function="case_of_branch", change="xid is None or * -> found is None or *", reason=TYPED
    ),
    NotCounted(module=FLINK_COMMITS, within="REST = *", reason="wording: the source of an evidence"),
    # Whoever judges gives both; of what has ended nothing is judged.
    NotCounted(module=FLINK_CASES, within="commit_overdue_ms: int = 1500", reason=SAME),
    NotCounted(module=FLINK_CASES, within="now_ms: int = 0", reason=SAME),
    NotCounted(module=FLINK_CASES, within="driver_silent_ms: int = 30000", reason=SAME),
    # What is young has a broker.
    NotCounted(
        module="collector/verdicts/young_transactions.py",
        function="young_case",
        change="*view.broker is None* -> view.ours or not*",
        reason=TYPED,
    ),
    # Flink numbers checkpoints from 1 on; without a list no restore is looked at.
    NotCounted(module=FLINK_CASES, within="first = *", change="0 -> 1", reason=SAME),
    NotCounted(module=FLINK_CASES, function="_with_unread_list", within="case = _case(*", change="0 -> 1", reason=SAME),
    NotCounted(module=FLINK_CASES, within="def flink_case(*", change="30000 -> 30001", reason=SAME),
    NotCounted(
        module=FLINK_CASES,
        function="FlinkCase.began_after_restored",
        change="self.restored is not None and * -> self.start_ms > *",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_CASES,
        function="case_of",
        change="producer_id is None or epoch is None -> epoch is None",
        reason=TYPED,
    ),
    # The second of the two is not looked at.
    NotCounted(module=FLINK_COMMITS, function="rule_22_set_back", change="False -> True", reason=SAME),
    NotCounted(module=ABORT_CAUSES, function="_late", reason="wording: how late it ended"),
    # A record that ends a transaction has an epoch and a version, and so has one that opens it.
    NotCounted(module=ABORT_CAUSES, function="ended_by", change="ended is None or version is None -> *", reason=TYPED),
    NotCounted(
        module=ABORT_CAUSES,
        function="ended_by",
        within="return EndedBy.UNSEEN",
        change="*EndedBy.UNSEEN -> *",
        reason=TYPED,
    ),
    NotCounted(module=ABORT_CAUSES, change="broker.end_version or 0 -> broker.end_version", reason=TYPED),
    NotCounted(module=ABORT_CAUSES, function="ended_by", within="empty = *", change="0 -> 1", reason=TYPED),
    NotCounted(module=ABORT_CAUSES, function="_by_coordinator", within="certainty = *", change="0 -> 1", reason=TYPED),
    NotCounted(
        module=ABORT_CAUSES,
        function="_over_timeout_ms",
        change="* or broker.ended_ms is None -> broker.timeout_ms is None",
        reason=TYPED,
    ),
    NotCounted(
        module=ABORT_CAUSES,
        function="_took_over",
        change="ended is None or epoch is None or * -> e* is None or not 0*",
        reason=TYPED,
    ),
    # The ids differ here.
    NotCounted(
        module=ABORT_CAUSES, function="_took_over", change="init.producer_id > * -> init.producer_id >= *", reason=SAME
    ),
    # Of one offset there is one run.
    NotCounted(module=LEDGER, function="DecisionLedger.newer_run", change="key=* -> ", reason=SAME),
    NotCounted(
        module=LEDGER,
        function="DecisionLedger.checkpoint_id_of",
        change="reversed* -> list*",
        reason="performance: the newest run is asked for most",
    ),
    NotCounted(module=DATA_LOSS, function="_committed", within="at = *", reason="wording: when it was committed"),
    # Of the last of the fates nothing is said, with a case of its own or without.
    NotCounted(module=DATA_LOSS, function="rule_flink", change="case Fate.UNSEEN -> ", reason=SAME),
    NotCounted(module=DATA_LOSS, function="rule_flink", change="Fate.UNSEEN -> *", reason=SAME),
    NotCounted(module=DATA_LOSS, function="rule_flink", change="return None -> *", reason=SAME),
    NotCounted(
        module=CHECKPOINT_RULE, change="* is CheckpointState.FAILED and * -> * is CheckpointState.FAILED", reason=TYPED
    ),
    NotCounted(module=CHECKPOINT_RULE, within="interval_ms = *", change="0 -> 1", reason=SAME),
    # Times that are all later than 1970.
    NotCounted(module=CHECKPOINT_RULE, within="return *facts.started_ms or 0)", change="0 -> 1", reason=SAME),
    # Stopped after the checkpoint began, and never started: it waits for its start, and is not asked about.
    NotCounted(
        module=CHECKPOINT_RULE, function="_could_run_from", change="* or 0 -> history.facts.started_ms", reason=TYPED
    ),
    NotCounted(
        module=CHECKPOINT_RULE,
        function="_could_run_from",
        change="history is None or * -> stopped_ms is None or *",
        reason=TYPED,
    ),
    # What has a deadline has an opening and a timeout.
    NotCounted(
        module=TRANSACTION_RULES,
        function="_deadline_if_near",
        change="t.deadline_ms is None or * -> t.deadline_ms is None or *",
        reason=TYPED,
    ),
    NotCounted(
        module=TRANSACTION_RULES, function="a1_timeout_near", within="left = *", reason="wording: the time left"
    ),
    NotCounted(
        module=TRANSACTION_RULES,
        function="_deadline_if_near",
        within="age_ms, least_age_ms = *",
        change="0 -> 1",
        reason=SAME,
    ),
    # It is looked at again too soon, and the same is found.
    NotCounted(
        module=TRANSACTION_RULES,
        function="a1_timeout_near",
        change="near.standing.next_round(limits) -> pass",
        reason=SAME,
    ),
    # Holders of other partitions are not asked for.
    NotCounted(
        module=PARTITION_RULES,
        function="a4_blocked_consumers",
        change="j.view.transaction in named and j.view.is_running -> j.view.is_running",
        reason=SAME,
    ),
    NotCounted(
        module=TRANSACTION_RULES,
        function="_deadline_if_near",
        within="return (None, max*",
        change="max(* -> min(*",
        reason=SAME,
    ),
    NotCounted(
        module=TRANSACTION_RULES,
        function="_deadline_if_near",
        within="return (None, max*",
        change="t.deadline_ms - needs_ms + 1 -> t.deadline_ms - needs_ms - 1",
        reason=SAME,
    ),
    NotCounted(
        module=TRANSACTION_RULES,
        function="_deadline_if_near",
        within="return (None, max*",
        change="t.opened_ms + least_age_ms -> t.opened_ms - least_age_ms",
        reason=SAME,
    ),
    NotCounted(module=TRANSACTION_RULES, function="_uncommitted", within="left = *", reason="wording: the time left"),
    NotCounted(module=TRANSACTION_RULES, function="a7_lost", within="rows = *", reason="wording: how many rows"),
    NotCounted(module=TRANSACTION_RULES, function="_need", reason="wording: what recovery needs"),
    NotCounted(
        module=SOURCE_RULES, function="a9_observer_down", within="without = *", reason="wording: what is missing"
    ),
    NotCounted(module=SOURCE_RULES, function="_unseen_ms", change="0 -> 1", reason=SAME),
    NotCounted(
        module=STANDING_ORDER_RULES, function="a13_acted", within="failed = *", reason="wording: how many failed"
    ),
    NotCounted(
        module=STANDING_ORDER_RULES, function="a13_acted", within="not_done = *", reason="wording: how many failed"
    ),
    NotCounted(module=STANDING_ORDER_RULES, function="_held_summary", reason="wording: a summary"),
    NotCounted(module=STANDING_ORDER_RULES, within="SHOWN = *", reason="wording: how many are shown"),
    # Whoever asks for a reason takes none as an empty one.
    NotCounted(module=STANDING_ORDERS, change="return '' -> return None", reason=SAME),
    # Both have none, or times that are all later than 1970.
    NotCounted(module=STANDING_ORDERS, function="_urgency", change="0 -> 1", reason=SAME),
    NotCounted(
        module=STANDING_ORDERS, function="_urgency", change="view.deadline_ms or 0 -> view.deadline_ms", reason=SAME
    ),
    NotCounted(module=STANDING_ORDERS, function="due_because", within="age_ms = *", change="0 -> 1", reason=SAME),
    NotCounted(
        module=KNOWN_ENDS,
        function="written_at",
        change="identity.producer_id in producer_ids and broker.handle_epoch is not None -> *",
        reason="performance: most are left out before their epoch is looked up",
    ),
    NotCounted(module=KNOWN_ENDS, function="known_end", within="own_epoch = *", change="0 -> 1", reason=SAME),
    NotCounted(module=READ_PROCESS_WRITE, function="read_process_write_case", change="0 -> 1", reason=SAME),
    # Lengths are whole steps of it; what is shown is rounded.
    NotCounted(module=TIMEOUT_RISK, within="MAX_TIMEOUT_MS = *", change="900000 -> 900001", reason=SAME),
    NotCounted(module=TIMEOUT_RISK, function="_rounded_up", change="length_ms <= * -> length_ms < *", reason=SAME),
    NotCounted(module=TIMEOUT_RISK, within="interval_ms = *", change="1000 -> 1001", reason=SAME),
    NotCounted(module=TIMEOUT_RISK, change="return '' -> return None", reason=SAME),
    NotCounted(module=HANGING, within="COORDINATORS_LOG = *", reason="wording: the source of an evidence"),
    NotCounted(module=HANGING, function="h4_open_elsewhere", within="fact += *", reason="wording: why it must wait"),
    # A rule before it answers where nothing is known, or nothing is open.
    NotCounted(module=HANGING, change="view.transactions or not view.moved -> view.transactions", reason=SAME),
    NotCounted(module=HANGING, change="not view.transactions or * -> any*", reason=SAME),
    NotCounted(module=HANGING, change="not opened or * -> any*", reason=SAME),
    # What is open has an epoch.
    NotCounted(module=HANGING, change="t.producer_epoch or 0 -> t.producer_epoch", reason=TYPED),
    NotCounted(
        module=HANGING, function="h4_open_elsewhere", within="if (t.producer_epoch*", change="0 -> 1", reason=TYPED
    ),
    NotCounted(module=HANGING, function="_may_end_it", change="0 -> 1", reason=TYPED),
    NotCounted(
        module=STREAMS_RESTORES,
        function="find_restores",
        change="changelogs -> True",
        reason="performance: without a held changelog no application is looked for",
    ),
    NotCounted(
        module=STREAMS_RESTORES,
        function="find_restores",
        change="is_changelog(partition[0]) -> ",
        reason="performance: other topics name no application either",
    ),
    # Without a holder nobody owns it.
    NotCounted(
        module=STREAMS_RESTORES,
        function="_has_its_owner",
        change="holder is None or owner is None or * -> owner is None or *",
        reason=TYPED,
    ),
    NotCounted(module=BLOCKED_READERS, change="before is not None and goes_on -> goes_on", reason=TYPED),
    # No application is called ''.
    NotCounted(module=STREAMS_TOPICS, function="changelog_of", change="end > 0 -> end >= 0", reason=SAME),
    NotCounted(
        module=STREAMS_TOPICS,
        function="changelog_of",
        within="end = named.rfind('-', 0, end)",
        change="0 -> 1",
        reason=SAME,
    ),
    # How much of what was read behind offsets is kept.
    NotCounted(module=PARTITION_STATE, function="", within="TAILS_KEPT = *", reason="a limit that no answer rests on"),
    NotCounted(module=PARTITION_STATE, function="", within="NOTHING_SEEN = *", change="0 -> 1", reason=SAME),
    NotCounted(
        module=PARTITION_STATE,
        change="self._read_by.get(group, frozenset()) != known.keys() -> True",
        reason="performance: what stays as it was is not copied",
    ),
    NotCounted(
        module=PARTITION_STATE,
        function="PartitionTracker.blocked",
        change="self._touched.clear() -> pass",
        reason="performance: what was not seen again is not judged again",
    ),
    # A set without a group names no reader.
    NotCounted(
        module=PARTITION_STATE, function="PartitionTracker._forget_reader", within="if not readers*", reason=SAME
    ),
    NotCounted(
        module=PARTITION_STATE, function="PartitionTracker._forget_reader", within="self._readers.pop*", reason=SAME
    ),
    # What is none afterwards was known before; what fires has a time at which it fired.
    NotCounted(
        module=STATE_MACHINE, change="after is None and known is not None and * -> after is None and *", reason=TYPED
    ),
    NotCounted(module=STATE_MACHINE, change="a.fired_ms or now_ms -> a.fired_ms", reason=TYPED),
    NotCounted(
        module=JUDGING,
        function="EvaluationContext._history",
        change="prefix not in self.pipelines -> True",
        reason="performance: a history is gathered once",
    ),
    NotCounted(
        module=JUDGING, function="_judgement", change="whose -> True", reason="performance: a copy that says the same"
    ),
    # How much is kept, and what only differs from what was.
    NotCounted(module=FLINK_FACTS, function="", within="JOBS_KEPT = *", reason="a limit that no answer rests on"),
    NotCounted(
        module=FLINK_FACTS,
        function="",
        within="JOBS_WITH_ALL_CHECKPOINTS = *",
        reason="a limit that no answer rests on",
    ),
    NotCounted(
        module=FLINK_FACTS, function="", within="LEAST_CHECKPOINTS = *", reason="a limit that no answer rests on"
    ),
    NotCounted(
        module=FLINK_FACTS, function="", within="COMMITTABLES_KEPT = *", reason="a limit that no answer rests on"
    ),
    NotCounted(module=FLINK_FACTS, function="", within="checkpoints_kept: *", reason="a limit that no answer rests on"),
    NotCounted(module=FLINK_FACTS, within="version: *", change="0 -> 1", reason=SAME),
    NotCounted(module=FLINK_FACTS, within="self.version += 1", change="1 -> 2", reason=SAME),
    NotCounted(
        module=FLINK_FACTS,
        function="FlinkState.see_job",
        change="seen.job not in self.jobs -> True",
        reason="performance: the list of jobs is found again",
    ),
    NotCounted(
        module=FLINK_FACTS,
        function="FlinkState.jobs_without_list",
        change="self._without_list is None -> True",
        reason="performance: the list of jobs is found again",
    ),
    # No list names a transaction without a producer; no job is called ''.
    NotCounted(module=FLINK_FACTS, function="FlinkState.lists", change="producer_id is None or * -> *", reason=TYPED),
    NotCounted(module=FLINK_FACTS, function="FlinkState.lists", within="return False", reason=TYPED),
    NotCounted(module=FLINK_FACTS, function="FlinkState.pipeline_of", change="'' -> 'X'", reason=SAME),
    # What a list is of has ended, and a list has a path; a time that fits is the same once it is made to fit.
    NotCounted(
        module=FLINK_JOB_FACTS,
        function="FlinkJobFacts.ended",
        change="* and seen.ended_ms is not None and * -> seen is not None and seen.status is status",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_JOB_FACTS,
        function="FlinkJobFacts.timed",
        change="seen is None or seen.ended_ms is None or * -> seen is None or seen.triggered_ms *",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_JOB_FACTS,
        function="FlinkJobFacts.timed",
        change="seen is None or seen.ended_ms is None or * -> seen is None or seen.ended_ms is None",
        reason=SAME,
    ),
    NotCounted(
        module=FLINK_JOB_FACTS, function="FlinkJobFacts.timed", change="* -> seen.triggered_ms < *", reason=SAME
    ),
    NotCounted(module=FLINK_JOB_FACTS, function="FlinkJobFacts.timed", change="* -> * < seen.ended_ms", reason=SAME),
    NotCounted(
        module=FLINK_JOB_FACTS,
        function="FlinkJobFacts._is_named",
        change="seen.ended_ms is None or * -> seen.number in self.earlier or *",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_JOB_FACTS,
        function="FlinkJobFacts._is_named",
        change="bool(seen.path) and * -> plain_path(*",
        reason=SAME,
    ),
    # Of a number that was taken again the later checkpoint is known.
    NotCounted(
        module=FLINK_FACTS,
        function="FlinkState.knows",
        change="known is not None and before is not None and * -> before is not None and *",
        reason=TYPED,
    ),
    NotCounted(
        module=FLINK_FACTS,
        function="FlinkState.see_committables",
        within="if seen.written_ms >= *",
        change="0 -> 1",
        reason=SAME,
    ),
    # Times that are all later than 1970; what no checkpoint lists has an empty list, or none.
    NotCounted(
        module=FLINK_FACTS, function="FlinkState.see_checkpoint", within="started = *", change="0 -> 1", reason=SAME
    ),
    NotCounted(module=FLINK_FACTS, function="FlinkState._forget", change="left -> True", reason=SAME),
    # Times that are all later than 1970; what is completed has a time.
    NotCounted(
        module=SNAPSHOT_BUILDER, function="_checkpoint_history", change="0 -> 1", within="newest = *", reason=SAME
    ),
    NotCounted(
        module=SNAPSHOT_BUILDER, function="_checkpoint_history", change="0 -> 1", within="completed_ms = *", reason=SAME
    ),
    NotCounted(
        module=SNAPSHOT_BUILDER, function="_checkpoint_history", change="0 -> 1", within="recent = *", reason=SAME
    ),
    NotCounted(module=SNAPSHOT_BUILDER, change="c.completed_ms or 0 -> c.completed_ms", reason=TYPED),
    NotCounted(
        module=SNAPSHOT_BUILDER,
        function="one_sided",
        change="*is not Verdict.SETTLED or * is TransactionState.ABORTED -> ",
        reason="performance: batches of which all is settled are not gathered",
    ),
    # What is committed on one side has the time of its end.
    NotCounted(module=SNAPSHOT_BUILDER, change="batch.updated_ms or now_ms -> batch.updated_ms", reason=TYPED),
    NotCounted(
        module=SNAPSHOT_BUILDER,
        function="take_snapshot",
        change="False -> True",
        reason="performance: whether ids leak rests on no fence",
    ),
    NotCounted(
        module=SNAPSHOT_BUILDER,
        function="_checkpoint_history",
        within="failed_since = *",
        change="-1 -> *",
        reason=SAME,
    ),
    NotCounted(
        module=SNAPSHOT_BUILDER, function="_checkpoint_history", within="failed_since = *", change="1 -> 2", reason=SAME
    ),
    NotCounted(
        module=SNAPSHOT_BUILDER,
        function="_checkpoint_history",
        change="newest.state is CheckpointState.COMPLETED -> False",
        reason="performance: what is usual is asked for only where something is not",
    ),
    NotCounted(module=CONFIRMATION, function="require_confirmation", within="which = *", reason="wording: of which"),
    NotCounted(module=CONFIRMATION, function="require_confirmation", within="what = *", reason="wording: what to type"),
    # It is noted once, and compares nothing.
    NotCounted(module=FLINK_SINKS, function="", within="_naming: *", reason=SAME),
    NotCounted(
        module=FLINK_SINKS,
        function="Sink.naming",
        change="self._naming is None -> True",
        reason="performance: it is found once",
    ),
    NotCounted(
        module=FLINK_SINKS, function="sinks", change="id_ in owners -> False", reason="performance: it is parsed once"
    ),
    # What is committing has ended.
    NotCounted(module=FLINK_SINKS, function="sinks", change="*.is_committing and * -> *.is_committing", reason=TYPED),
    # What was decided last has a decision.
    NotCounted(
        module=REPLAYED_BATCHES, function="_is_committed_whole", change="decision is not None and * -> *", reason=TYPED
    ),
    # Times that are all later than 1970; what is completed has a time.
    NotCounted(module=CHECKPOINT_GAPS, within="known = *", change="0 -> 1", reason=SAME),
    NotCounted(module=CHECKPOINT_GAPS, within="done_ms = *", change="* and c.ended_ms is not None -> *", reason=TYPED),
    NotCounted(module=VERDICT_CASE, within="DECISIONS, EVENTS = *", reason="wording: the source of an evidence"),
    # What has a timeout has a time of its opening; a coordinator names the transaction as its handle does.
    NotCounted(
        module=TRANSACTION_VIEW,
        function="TransactionView.deadline_ms",
        change="* or self.opened_ms is None or * -> not self.is_running or self.timeout_ms is None",
        reason=TYPED,
    ),
    NotCounted(
        module=TRANSACTION_VIEW,
        function="TransactionView.sort_key",
        change="self.broker is not None -> False",
        reason=SAME,
    ),
    NotCounted(
        module=TRANSACTION_VIEW,
        function="TransactionView.revision",
        change="self.outcome is None -> self.outcome is not None",
        reason=SAME,
    ),
    # Any of its signs is younger than 1970.
    NotCounted(module=DRIVER_STATE, function="_alive_ms", change="0 -> 1", reason=SAME),
    # Lists that are made of each other are of one length, whichever half of two or more is not empty, and the log is for people.
    NotCounted(module=PLAN, function="joined", within="*strict=True*", change="True -> False", reason=SAME),
    NotCounted(module=PLAN, function="carry_out", change="log.exception*", reason="what the log says"),
    NotCounted(module=PLAN, function="result_of", change="case _ ->*", reason=TYPED),
    NotCounted(module=PLAN, function="result_of", change="assert_never(outcome) -> pass", reason=TYPED),
    NotCounted(module=EACH, function="_plans", change="return [] -> return None", reason=SAME),
    NotCounted(module=SELECTION, function="select", within="*strict=True*", change="True -> False", reason=SAME),
    # How long a fingerprint is, and a millisecond of an act's age.
    NotCounted(module=SELECTION, function="fingerprint", change="32 -> 33", reason="a limit that no answer rests on"),
    NotCounted(module=GIVEN_ORDERS, function="GivenOrders.load", change="0 -> 1", reason=SAME),
    # Only which of two is greater is asked.
    NotCounted(module=FINDINGS, function="Severity.rank", change="1 -> 2", reason=SAME),
    # Offsets of a finished batch that is not the newest are whole, or damaged as well; a batch below none is below any.
    NotCounted(module=DAMAGED_LOGS, function="_Logs.damage", within="*max(self._planned, default=-1)*", reason=SAME),
    NotCounted(module=DAMAGED_LOGS, function="_Logs.repair", within="*default=-1*", change="1 -> 2", reason=SAME),
    # A file that is read again says the same.
    NotCounted(module=DAMAGED_LOGS, function="_Logs._error", within="*not in self._read*", reason=SAME),
)
