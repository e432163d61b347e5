"""Changes that alter no verdict, no decision and no answer about loss, each kind with its reason; read again with each review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.mutants.operators import Mutant


@dataclass(frozen=True)
class NotCounted:
    """Patterns (``*`` for anything) of a function, of the change ``before -> after``, and of the statement that it is in."""

    function: str
    change: str
    reason: str
    within: str = "*"

    def matches(self, mutant: Mutant) -> bool:
        return (
            fnmatchcase(mutant.function, self.function)
            and fnmatchcase(mutant.within, _literal(self.within))
            and fnmatchcase(f"{mutant.before} -> {mutant.after}", _literal(self.change))
        )


def _literal(pattern: str) -> str:
    """Let only the asterisk be special: brackets and question marks stand for themselves in code."""
    return "".join(f"[{sign}]" if sign in "[?" else sign for sign in pattern)


SAME = "no difference"
TEXT, TYPED = "wording: which evidence is shown", "a check for the type checker alone"
LIMIT = "a limit that no answer rests on"

REVIEWED: Mapping[str, tuple[NotCounted, ...]] = {
    "collector/verdicts/flink_cases.py": (
        # A branch with a case has an xid, and one that no checkpoint lists has a job; what is restored has a restore.
        NotCounted("_case_of_view", "*xid is not None* -> not case.listings and xid.*", TYPED),
        NotCounted("_case_of_view", "may_be_held and case.job -> may_be_held", TYPED),
        # Without a job none runs, whether its cluster's REST API answers or not; times are later than 1970.
        NotCounted("_case", "False -> True", SAME),
        # An id of another form that no checkpoint lists has no case.
        NotCounted("_with_unread_list", "return case -> return None", SAME),
        NotCounted("_case", "facts is not None -> False", "wording: a job's name"),
        NotCounted("case_of_branch", "xid is None or * -> found is None or *", TYPED),
        # Flink numbers checkpoints from 1 on; without a list no restore is looked at.
        NotCounted("*", "0 -> 1", SAME, within="first = *"),
        NotCounted("*", "30000 -> 30001", SAME, within="def flink_case(*"),
        NotCounted("case_of", "producer_id is None or epoch is None -> epoch is None", TYPED),
    ),
    "collector/verdicts/flink_restores.py": (
        # Each other job of the line makes it doubtful, whatever it rests on.
        NotCounted("_doubts", "Standing.UNKNOWN -> *", SAME),
    ),
    "collector/verdicts/flink_prefixes.py": (
        # Jobs whose lists leave the prefix out are not looked at, and neither is the job itself; times are later than 1970.
        NotCounted("rival", "is_named is None and * -> _has_completed*", SAME),
        NotCounted("known_by_lists", "* or job == facts.job.job -> job in flink.jobs", SAME),
        NotCounted("others_that_ran", "* or not ran_at(*) -> not ran_at(*)", SAME),
        NotCounted("known_by_lists", "0 -> 1", SAME),
    ),
    "collector/verdicts/loss_cases.py": (
        # Copies that nothing reads are spared; what stands at the end of a list is as good as that list.
        NotCounted("loss_inputs", "wants_flink* -> *", SAME),
        NotCounted("judged", "offsets -> True", SAME),
        NotCounted("committed_and_written_again", "not _was_restored(*) -> False", SAME),
        NotCounted("_ordered_and_taken", "ids -> True", SAME),
        # Branches have no broker, and others have one; an id of another form has no case that asks Flink.
        NotCounted("judged", "*", TYPED, within="*broker is not None and parsed is not None*"),
        NotCounted("_asks_flink", "*view.broker is None* -> view.managed or FlinkId*", TYPED),
        NotCounted("_of_flink", "order is not None and * -> _is(*", TYPED),
        # Times that are all later than 1970.
        NotCounted("_of_flink", "0 -> 1", SAME, within="taken_ms = *"),
        NotCounted("_ordered_and_taken", "0 -> 1", SAME, within="taken = *"),
        # What has not ended is no input, and what is committing has ended.
        NotCounted("judged", "loss is not None -> True", TYPED),
        NotCounted("_ordered_and_taken", "*or (ended_ms is None) -> *or (not broker.is_committing)", TYPED),
        NotCounted(
            "_ordered_and_taken",
            "id_ not in ids or * -> FlinkId.parse(id_) is None or *",
            "performance: the keys of few are compared",
        ),
    ),
    "collector/verdicts/flink_unread_lists.py": (
        # What holds it has ended, and nothing that is unread is without it.
        NotCounted("*", "unread is None or holding is None -> unread is None", TYPED),
        NotCounted("*", "holding.ended_ms is None or * -> any(*", TYPED),
    ),
    "collector/facts/branch_view.py": (
        # What is listed no more has a time at which it was gone.
        NotCounted(
            "_was_ordered_away", "*branch.gone_ms is None or order is None* -> * is not None or order is None*", TYPED
        ),
    ),
    "collector/verdicts/flink_duplicates.py": (
        # A look at one index spares a look at every job; what follows finds the same.
        NotCounted("_listed", "*", SAME, within="if producer_id is None*"),
        NotCounted("_listed", "*", SAME, within="return None"),
        NotCounted("_is_older", "reversed(*) -> list(*)", SAME),
        NotCounted("evidence", "* -> found is not None or ended_ms is None", TYPED),
    ),
    "collector/verdicts/verdict_rules.py": (
        NotCounted("_by", "*", "wording: the source of an evidence"),
        NotCounted("rule_1_settled", "*", TEXT, within="gone = *"),
        NotCounted("rule_3_lost", "*", TEXT, within="reported = *"),
        NotCounted("rule_7_foreign", "*", TEXT, within="if t.broker is not None*"),
        NotCounted("rule_7_foreign", "*", TEXT, within="evidence.append*"),
        NotCounted("rule_8_commit_overdue", "*", TEXT, within="if t.broker is not None*"),
        NotCounted("rule_10_end_not_seen", "*", TEXT, within="unseen = *"),
        # An event that claims it has a time, so what only events claim has one.
        NotCounted("rule_4_only_reported", "t.updated_ms is not None and * -> *", TYPED),
        # What is listed has a branch, so the first half says nothing that the second does not.
        NotCounted("judge", "t.branch is None* -> *", TYPED),
        NotCounted("rule_13_driver_silent", "case.pipeline is None or last is None -> last is None", TYPED),
        NotCounted("rule_12_newer_run", "newer is None or * -> newer is None", TYPED),
        NotCounted("rule_37_gone", "t.broker is not None and * -> t.broker.gone_ms*", TYPED),
        # What has a deadline was opened, and has a timeout.
        NotCounted("rule_14_at_risk", "t.opened_ms is not None and * -> case.now_ms*", TYPED),
        NotCounted("rule_14_at_risk", "t.timeout_ms or 0 -> t.timeout_ms", TYPED),
        # Earlier rules answer for all that does not run.
        NotCounted("rule_7_foreign", "t.is_running and * -> _is_there(t)", SAME),
    ),
    "lifecycle/decision_parts.py": (
        NotCounted("*", "1000 -> 1001", "performance: how large a part is"),
        NotCounted("encode_within", "*", "performance: how large a part is", within="step = *"),
    ),
    "lifecycle/decisions.py": (NotCounted("encode", "separators=* -> ", "performance: spaces between JSON's fields"),),
    "collector/verdicts/flink_commits.py": (
        # Restores that are all later than 1970.
        NotCounted("rule_27_job_runs", "0 -> 1", SAME),
        NotCounted(
            "rule_27_job_runs", "case.listings or not runs or case.job is None -> case.listings or not runs", TYPED
        ),
        NotCounted("rule_23_completed", "*", TEXT, within="if case.is_branch and case.may_run*"),
    ),
    "collector/verdicts/abort_causes.py": (
        NotCounted("_late", "*", "wording: how late it ended"),
        # A record that ends a transaction has an epoch and a version, and so has one that opens it.
        NotCounted("ended_by", "ended is None or version is None -> *", TYPED),
        NotCounted("ended_by", "*EndedBy.UNSEEN -> *", TYPED, within="return EndedBy.UNSEEN"),
        NotCounted("*", "broker.end_version or 0 -> broker.end_version", TYPED),
        NotCounted("ended_by", "0 -> 1", TYPED, within="empty = *"),
        NotCounted("_by_coordinator", "0 -> 1", TYPED, within="certainty = *"),
        NotCounted("_took_over", "ended is None or epoch is None or * -> e* is None or not 0*", TYPED),
        # The ids differ here.
        NotCounted("_took_over", "init.producer_id > * -> init.producer_id >= *", SAME),
    ),
    "lifecycle/decision_ledger.py": (
        # Of one offset there is one run.
        NotCounted("DecisionLedger.newer_run", "key=* -> ", SAME),
        NotCounted(
            "DecisionLedger.checkpoint_id_of", "reversed* -> list*", "performance: the newest run is asked for most"
        ),
    ),
    "collector/verdicts/data_loss.py": (
        NotCounted("_committed", "*", "wording: when it was committed", within="at = *"),
        # Of the last of the fates nothing is said, with a case of its own or without.
        NotCounted("rule_flink", "case Fate.UNSEEN -> ", SAME),
        NotCounted("rule_flink", "Fate.UNSEEN -> *", SAME),
        NotCounted("rule_flink", "return None -> *", SAME),
    ),
    "collector/assess/rules/checkpoints.py": (
        NotCounted("*", "* is CheckpointState.FAILED and * -> * is CheckpointState.FAILED", TYPED),
        NotCounted("*", "0 -> 1", SAME, within="interval_ms = *"),
        # Stopped after the checkpoint began, and never started: it waits for its start, and is not asked about.
        NotCounted("_could_run_from", "* or 0 -> history.facts.started_ms", TYPED),
        NotCounted("_could_run_from", "history is None or * -> stopped_ms is None or *", TYPED),
        # What is completed has a time.
        NotCounted("*", "c.completed_ms or 0 -> c.completed_ms", TYPED),
        NotCounted("_checkpoint_history", "-1 -> *", SAME, within="failed_since = *"),
        NotCounted("_checkpoint_history", "1 -> 2", SAME, within="failed_since = *"),
        NotCounted(
            "_checkpoint_history",
            "newest.state is CheckpointState.COMPLETED -> False",
            "performance: what is usual is asked for only where something is not",
        ),
    ),
    "collector/assess/rules/readers.py": (
        # Holders of other partitions are not asked for.
        NotCounted(
            "a4_blocked_consumers", "j.view.transaction in named and j.view.is_running -> j.view.is_running", SAME
        ),
    ),
    "collector/assess/rules/transactions.py": (
        NotCounted("_uncommitted", "*", "wording: the time left", within="left = *"),
        NotCounted("_need", "*", "wording: what recovery needs"),
    ),
    "collector/assess/rules/observers.py": (
        NotCounted("_follows", "*", "wording: what is missing"),
        NotCounted("_is_silent", "0 -> 1", SAME),
        # One that is up and silent has an age.
        NotCounted("_card", "observer.delay_ms or 0 -> observer.delay_ms", TYPED),
    ),
    "collector/assess/rules/standing_orders.py": (
        NotCounted("a13_acted", "*", "wording: how many failed", within="failed = *"),
        NotCounted("a13_acted", "*", "wording: how many failed", within="not_done = *"),
        NotCounted("_held_summary", "*", "wording: a summary"),
        NotCounted("*", "*", "wording: how many are shown", within="SHOWN = *"),
    ),
    "collector/act/standing_orders/decision.py": (
        # Both have none, or times that are all later than 1970.
        NotCounted("_urgency", "view.deadline_ms or 0 -> view.deadline_ms", SAME),
        NotCounted("due_because", "0 -> 1", SAME, within="age_ms = *"),
    ),
    "collector/verdicts/known_ends.py": (
        NotCounted(
            "written_at",
            "identity.producer_id in producer_ids and broker.handle_epoch is not None -> *",
            "performance: most are left out before their epoch is looked up",
        ),
        NotCounted("known_end", "0 -> 1", SAME, within="own_epoch = *"),
    ),
    "collector/verdicts/read_process_write.py": (NotCounted("read_process_write_case", "0 -> 1", SAME),),
    "collector/verdicts/timeout_risk.py": (
        # Lengths are whole steps of it; what is shown is rounded.
        NotCounted("*", "900000 -> 900001", SAME, within="MAX_TIMEOUT_MS = *"),
        NotCounted("_rounded_up", "length_ms <= * -> length_ms < *", SAME),
        NotCounted("*", "1000 -> 1001", SAME, within="interval_ms = *"),
    ),
    "collector/verdicts/hanging_transactions.py": (
        NotCounted("*", "*", "wording: the source of an evidence", within="COORDINATORS_LOG = *"),
        NotCounted("h4_open_elsewhere", "*", "wording: why it must wait", within="fact += *"),
        # A rule before it answers where nothing is known, or nothing is open.
        NotCounted("*", "view.transactions or not view.moved -> view.transactions", SAME),
        NotCounted("*", "not view.transactions or * -> any*", SAME),
        NotCounted("*", "not opened or * -> any*", SAME),
        # What is open has an epoch.
        NotCounted("*", "t.producer_epoch or 0 -> t.producer_epoch", TYPED),
        NotCounted("h4_open_elsewhere", "0 -> 1", TYPED, within="if (t.producer_epoch*"),
        NotCounted("_may_end_it", "0 -> 1", TYPED),
    ),
    "collector/verdicts/streams_restores.py": (
        NotCounted(
            "find_restores", "changelogs -> True", "performance: without a held changelog no application is looked for"
        ),
        NotCounted(
            "find_restores", "is_changelog(partition[0]) -> ", "performance: other topics name no application either"
        ),
        # Without a holder nobody owns it.
        NotCounted("_has_its_owner", "holder is None or owner is None or * -> owner is None or *", TYPED),
    ),
    "collector/verdicts/blocked_readers.py": (NotCounted("*", "before is not None and goes_on -> goes_on", TYPED),),
    "collector/verdicts/streams_topics.py": (
        # No application is called ''.
        NotCounted("changelog_of", "end > 0 -> end >= 0", SAME),
        NotCounted("changelog_of", "0 -> 1", SAME, within="end = named.rfind('-', 0, end)"),
    ),
    "collector/verdicts/partition_state.py": (
        # How much of what was read behind offsets is kept.
        NotCounted("", "*", LIMIT, within="TAILS_KEPT = *"),
        NotCounted("", "0 -> 1", SAME, within="NOTHING_SEEN = *"),
        NotCounted(
            "*",
            "self._read_by.get(group, frozenset()) != known.keys() -> True",
            "performance: what stays as it was is not copied",
        ),
        NotCounted(
            "PartitionTracker.blocked",
            "self._touched.clear() -> pass",
            "performance: what was not seen again is not judged again",
        ),
        # A set without a group names no reader.
        NotCounted("PartitionTracker._forget_reader", "*", SAME, within="if not readers*"),
        NotCounted("PartitionTracker._forget_reader", "*", SAME, within="self._readers.pop*"),
    ),
    "collector/notify/state_machine.py": (
        # What is none afterwards was known before; what fires has a time at which it fired.
        NotCounted("*", "after is None and known is not None and * -> after is None and *", TYPED),
        NotCounted("*", "a.fired_ms or now_ms -> a.fired_ms", TYPED),
    ),
    "collector/verdicts/judging.py": (
        NotCounted(
            "EvaluationContext._history",
            "prefix not in self.pipelines -> True",
            "performance: a history is gathered once",
        ),
        NotCounted("_judgement", "whose -> True", "performance: a copy that says the same"),
    ),
    "collector/records/flink_facts.py": (
        # How much is kept, and what only differs from what was.
        NotCounted("", "*", LIMIT, within="JOBS_KEPT = *"),
        NotCounted("", "*", LIMIT, within="JOBS_WITH_ALL_CHECKPOINTS = *"),
        NotCounted("", "*", LIMIT, within="LEAST_CHECKPOINTS = *"),
        NotCounted("", "*", LIMIT, within="checkpoints_kept: *"),
        NotCounted(
            "FlinkState.see_job", "seen.job not in self.jobs -> True", "performance: the list of jobs is found again"
        ),
        NotCounted(
            "FlinkState.jobs_without_list",
            "self._without_list is None -> True",
            "performance: the list of jobs is found again",
        ),
        # No job is called ''.
        NotCounted("FlinkState.pipeline_of", "'' -> 'X'", SAME),
        # Of a number that was taken again the later checkpoint is known.
        NotCounted(
            "FlinkState.knows", "known is not None and before is not None and * -> before is not None and *", TYPED
        ),
        # Times that are all later than 1970.
        NotCounted("FlinkState.see_checkpoint", "0 -> 1", SAME, within="started = *"),
    ),
    "collector/records/flink_lists.py": (
        # How much is kept.
        NotCounted("", "*", LIMIT, within="JOBS_KEPT = *"),
        NotCounted("", "*", LIMIT, within="COMMITTABLES_KEPT = *"),
        # No list names a transaction without a producer.
        NotCounted("FlinkLists.have", "producer_id is None or * -> *", TYPED),
        NotCounted("FlinkLists.have", "*", TYPED, within="return False"),
        # Times that are all later than 1970; what no checkpoint lists has an empty list, or none.
        NotCounted("FlinkLists.see", "0 -> 1", SAME, within="if seen.written_ms >= *"),
        NotCounted("FlinkLists._forget", "left -> True", SAME),
    ),
    "collector/records/flink_job_facts.py": (
        # What a list is of has ended, and a list has a path; a time that fits is the same once it is made to fit.
        NotCounted(
            "FlinkJobFacts.ended",
            "* and seen.ended_ms is not None and * -> seen is not None and seen.status is status",
            TYPED,
        ),
        NotCounted(
            "FlinkJobFacts.timed",
            "seen is None or seen.ended_ms is None or * -> seen is None or seen.triggered_ms *",
            TYPED,
        ),
        NotCounted(
            "FlinkJobFacts.timed",
            "seen is None or seen.ended_ms is None or * -> seen is None or seen.ended_ms is None",
            SAME,
        ),
        NotCounted("FlinkJobFacts.timed", "* -> seen.triggered_ms < *", SAME),
        NotCounted("FlinkJobFacts.timed", "* -> * < seen.ended_ms", SAME),
        NotCounted("FlinkJobFacts._is_named", "seen.ended_ms is None or * -> seen.number in self.earlier or *", TYPED),
        NotCounted("FlinkJobFacts._is_named", "bool(seen.path) and * -> plain_path(*", SAME),
    ),
    "collector/assess/rules/applications.py": (
        NotCounted("id_leaks", "False -> True", "performance: whether ids leak rests on no fence"),
    ),
    "collector/assess/rules/batches.py": (
        NotCounted(
            "one_sided",
            "*is not Verdict.SETTLED or * is TransactionState.ABORTED -> ",
            "performance: batches of which all is settled are not gathered",
        ),
        # What is committed on one side has the time of its end.
        NotCounted("*", "batch.updated_ms or now_ms -> batch.updated_ms", TYPED),
    ),
    "collector/assess/rules/losses.py": (NotCounted("a7_lost", "*", "wording: how many rows", within="rows = *"),),
    "collector/act/orders/confirmation.py": (
        NotCounted("require_confirmation", "*", "wording: of which", within="which = *"),
        NotCounted("require_confirmation", "*", "wording: what to type", within="what = *"),
    ),
    "collector/facts/flink_sinks.py": (
        # It is noted once, and compares nothing.
        NotCounted("", "*", SAME, within="_naming: *"),
        NotCounted("Sink.naming", "self._naming is None -> True", "performance: it is found once"),
        NotCounted("sinks", "id_ in owners -> False", "performance: it is parsed once"),
        # What is committing has ended.
        NotCounted("sinks", "*.is_committing and * -> *.is_committing", TYPED),
    ),
    "collector/facts/replayed_batches.py": (
        # What was decided last has a decision.
        NotCounted("_is_committed_whole", "decision is not None and * -> *", TYPED),
    ),
    "collector/verdicts/checkpoint_gaps.py": (
        # What is completed has a time.
        NotCounted("*", "* and c.ended_ms is not None -> *", TYPED, within="done_ms = *"),
    ),
    "collector/verdicts/verdict_case.py": (
        # What is young has a broker.
        NotCounted("young", "*view.broker is None* -> view.managed or not*", TYPED),
        NotCounted("*", "*", "wording: the source of an evidence", within="DECISIONS, EVENTS = *"),
    ),
    "collector/facts/transaction_view.py": (
        # What has a timeout has a time of its opening; a coordinator names the transaction as its handle does.
        NotCounted(
            "TransactionView.deadline_ms",
            "* or self.opened_ms is None or * -> not self.is_running or self.timeout_ms is None",
            TYPED,
        ),
        NotCounted("TransactionView.sort_key", "self.broker is not None -> False", SAME),
        NotCounted("TransactionView.revision", "self.outcome is None -> self.outcome is not None", SAME),
    ),
    "collector/verdicts/driver_state.py": (
        # Any of its signs is younger than 1970.
        NotCounted("_alive_ms", "0 -> 1", SAME),
    ),
    "collector/act/orders/plan.py": (
        NotCounted("execute", "log.exception*", "what the log says"),
        NotCounted("result_of", "case _ ->*", TYPED),
        NotCounted("result_of", "assert_never(outcome) -> pass", TYPED),
        # Whichever half of two or more is not empty.
        NotCounted("_plans_of_parts", "return [] -> return None", SAME),
    ),
    "collector/act/orders/bulk_selection.py": (
        # How long a fingerprint is.
        NotCounted("fingerprint", "32 -> 33", LIMIT),
    ),
    "collector/act/standing_orders/given_orders.py": (NotCounted("GivenOrders.load", "0 -> 1", SAME),),
    "collector/assess/findings.py": (
        # Only which of two is greater is asked.
        NotCounted("Severity.rank", "1 -> 2", SAME),
    ),
    "pipeline/checkpoints/damaged_logs.py": (
        # Offsets of a finished batch that is not the newest are whole, or damaged as well; a batch below none is below any.
        NotCounted("_Logs.damage", "*", SAME, within="*max(self._planned, default=-1)*"),
        NotCounted("_Logs.repair", "1 -> 2", SAME, within="*default=-1*"),
        # A file that is read again says the same.
        NotCounted("_Logs._error", "*", SAME, within="*not in self._read*"),
    ),
}
"""By module."""
