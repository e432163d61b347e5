"""The modules that are changed, each with the tests that judge it: first the quick ones, then the slow ones."""

from __future__ import annotations

VERDICTS = "tests/unit/collector/verdicts"
LIFECYCLE = "tests/unit/lifecycle"
DECISIONS = (
    f"{LIFECYCLE}/test_decisions.py",
    f"{LIFECYCLE}/test_decision_codec.py",
    f"{LIFECYCLE}/test_decision_parts.py",
    f"{LIFECYCLE}/test_decision_snapshot.py",
)
FLINK_COMMITS = (
    f"{VERDICTS}/test_flink_commit_limits.py",
    f"{VERDICTS}/test_flink_commits.py",
    f"{VERDICTS}/test_flink_lines_of_work.py",
    f"{VERDICTS}/test_flink_branches.py",
    f"{VERDICTS}/test_flink_histories.py",
)
LOSSES = (
    f"{VERDICTS}/test_data_loss.py",
    f"{VERDICTS}/test_losses_of_ours.py",
    f"{VERDICTS}/test_losses_of_flink.py",
    f"{VERDICTS}/test_kept_losses.py",
)
ORDERS = "tests/unit/collector/act/orders"
ALERTING = "tests/unit/collector/notify"
ALERT_RULES = (
    f"{ALERTING}/test_rules.py",
    f"{ALERTING}/test_transaction_rules.py",
    f"{ALERTING}/test_checkpoint_rules.py",
    f"{ALERTING}/test_whole_findings.py",
    f"{ALERTING}/test_alert_objects.py",
)
FLINK_STATES = (
    "tests/unit/collector/records/test_flink_facts.py",
    "tests/unit/collector/records/test_flink_lists.py",
    "tests/unit/collector/records/test_flink_ends_of_lists.py",
    "tests/unit/collector/records/test_flink_what_is_kept.py",
    "tests/unit/collector/records/test_flink_checkpoint_rows.py",
    "tests/unit/collector/facts/test_applications.py",
    f"{VERDICTS}/test_flink_commit_limits.py",
    f"{VERDICTS}/test_flink_commits.py",
    f"{VERDICTS}/test_flink_lines_of_work.py",
    f"{VERDICTS}/test_flink_branches.py",
    f"{VERDICTS}/test_flink_job_cases.py",
    f"{VERDICTS}/test_flink_lists_not_read.py",
    f"{VERDICTS}/test_flink_restored_jobs.py",
    f"{VERDICTS}/test_flink_checkpoints.py",
)

JUDGED: dict[str, tuple[str, ...]] = {
    "collector/verdicts/verdict_rules.py": (
        f"{VERDICTS}/test_verdict_rules.py",
        f"{VERDICTS}/test_claims.py",
        f"{VERDICTS}/test_read_process_write.py",
        f"{VERDICTS}/test_young_transactions.py",
        f"{VERDICTS}/test_flink_commits.py",
    ),
    "collector/verdicts/flink_cases.py": FLINK_COMMITS,
    "collector/verdicts/flink_rivals.py": (f"{VERDICTS}/test_flink_rivals.py",),
    "collector/verdicts/flink_known.py": FLINK_COMMITS,
    "collector/verdicts/flink_line.py": FLINK_COMMITS,
    "collector/verdicts/flink_commits.py": FLINK_COMMITS,
    "collector/verdicts/flink_checkpoints.py": (
        f"{VERDICTS}/test_flink_job_cases.py",
        f"{VERDICTS}/test_flink_checkpoints.py",
        f"{VERDICTS}/test_flink_set_backs.py",
        f"{VERDICTS}/test_flink_branch_losses.py",
        f"{VERDICTS}/test_losses_of_flink.py",
    ),
    "collector/verdicts/flink_duplicates.py": (
        f"{VERDICTS}/test_flink_written_twice.py",
        f"{VERDICTS}/test_flink_duplicates.py",
        f"{VERDICTS}/test_flink_set_backs.py",
        f"{VERDICTS}/test_flink_branch_losses.py",
    ),
    "collector/verdicts/flink_jobs_of_sinks.py": (
        f"{VERDICTS}/test_flink_restored_jobs.py",
        f"{VERDICTS}/test_flink_checkpoints.py",
        f"{VERDICTS}/test_flink_commits.py",
        f"{VERDICTS}/test_flink_duplicates.py",
        f"{VERDICTS}/test_flink_set_backs.py",
        f"{VERDICTS}/test_losses_of_flink.py",
    ),
    "collector/verdicts/flink_set_backs.py": (
        f"{VERDICTS}/test_flink_restored_jobs.py",
        f"{VERDICTS}/test_flink_set_backs.py",
        f"{VERDICTS}/test_flink_duplicates.py",
    ),
    "collector/verdicts/flink_unread_lists.py": (
        f"{VERDICTS}/test_flink_lists_not_read.py",
        f"{VERDICTS}/test_flink_commits.py",
    ),
    "collector/verdicts/loss_cases.py": (
        f"{VERDICTS}/test_loss_inputs.py",
        f"{VERDICTS}/test_loss_cases.py",
        f"{VERDICTS}/test_loss_of_past.py",
        f"{VERDICTS}/test_flink_set_backs.py",
        f"{VERDICTS}/test_read_process_write.py",
        f"{VERDICTS}/test_flink_branch_losses.py",
        *LOSSES,
    ),
    "collector/verdicts/abort_causes.py": (f"{VERDICTS}/test_abort_causes.py",),
    "collector/verdicts/data_loss.py": LOSSES,
    "collector/verdicts/known_ends.py": (f"{VERDICTS}/test_known_ends.py",),
    "collector/verdicts/young_transactions.py": (f"{VERDICTS}/test_young_transactions.py",),
    "collector/verdicts/read_process_write.py": (f"{VERDICTS}/test_read_process_write.py",),
    "collector/verdicts/hanging_transactions.py": (f"{VERDICTS}/test_hanging_transactions.py",),
    "collector/verdicts/streams_restores.py": (f"{VERDICTS}/test_streams_restores.py",),
    "collector/verdicts/streams_topics.py": (
        f"{VERDICTS}/test_streams_restores.py",
        f"{VERDICTS}/test_read_process_write.py",
    ),
    "collector/verdicts/blocked_readers.py": (f"{VERDICTS}/test_blocked_readers.py",),
    "collector/verdicts/group_lags.py": (f"{VERDICTS}/test_group_lags.py", f"{VERDICTS}/test_reader_waits.py"),
    "collector/verdicts/reader_waits.py": (f"{VERDICTS}/test_reader_waits.py",),
    "collector/verdicts/timeout_risk.py": (f"{VERDICTS}/test_timeout_risk.py",),
    "collector/verdicts/driver_state.py": (f"{VERDICTS}/test_driver_state.py",),
    "collector/verdicts/watched_times.py": (f"{VERDICTS}/test_watched_times.py",),
    "collector/assess/remedies.py": (f"{ALERTING}/test_remedies.py", "tests/unit/collector/assess/test_attention.py"),
    "collector/assess/incidents.py": ("tests/unit/collector/assess/test_incidents.py",),
    "collector/assess/incident_steps.py": (
        "tests/unit/collector/assess/test_incident_steps.py",
        "tests/unit/collector/assess/test_incidents.py",
    ),
    "collector/act/standing_orders/decision.py": ("tests/unit/collector/act/standing_orders/test_decision.py",),
    "collector/assess/rule.py": (f"{ALERTING}/test_evaluator.py", "tests/unit/collector/assess/test_attention.py"),
    "collector/assess/rules/__init__.py": ALERT_RULES,
    "collector/assess/rules/applications.py": (*ALERT_RULES, f"{ALERTING}/test_snapshots.py"),
    "collector/assess/rules/batches.py": (*ALERT_RULES, f"{ALERTING}/test_one_sided_rule.py"),
    "collector/assess/rules/checkpoints.py": (
        *ALERT_RULES,
        f"{ALERTING}/test_snapshots.py",
        f"{ALERTING}/test_evaluator.py",
    ),
    "collector/assess/rules/losses.py": (f"{ALERTING}/test_recent_losses.py", *ALERT_RULES),
    "collector/assess/rules/hanging.py": (
        *ALERT_RULES,
        f"{ALERTING}/test_snapshots.py",
        f"{VERDICTS}/test_partition_state.py",
    ),
    "collector/assess/rules/readers.py": (
        *ALERT_RULES,
        "tests/unit/collector/assess/test_attention.py",
        f"{VERDICTS}/test_partition_state.py",
        f"{VERDICTS}/test_streams_restores.py",
    ),
    "collector/assess/rules/observers.py": (*ALERT_RULES, "tests/unit/collector/assess/test_attention.py"),
    "collector/assess/rules/sources.py": (*ALERT_RULES, f"{ALERTING}/test_unread_checkpoints.py"),
    "collector/assess/rules/standing_orders.py": (f"{ALERTING}/test_standing_order_rules.py", *ALERT_RULES),
    "collector/assess/rules/transactions.py": ALERT_RULES,
    "lifecycle/decisions.py": DECISIONS,
    "lifecycle/decision_ledger.py": (f"{LIFECYCLE}/test_decisions.py", f"{LIFECYCLE}/test_kept_decisions.py"),
    "lifecycle/decision_parts.py": DECISIONS,
    "collector/verdicts/partition_state.py": (
        f"{VERDICTS}/test_partition_state.py",
        f"{VERDICTS}/test_partition_edges.py",
        f"{VERDICTS}/test_reader_waits.py",
        f"{VERDICTS}/test_streams_restores.py",
    ),
    "collector/notify/state_machine.py": (
        f"{ALERTING}/test_state_machine.py",
        f"{ALERTING}/test_alert_steps.py",
    ),
    "collector/verdicts/judging.py": (
        f"{VERDICTS}/test_judging.py",
        f"{VERDICTS}/test_claims.py",
        f"{VERDICTS}/test_driver_state.py",
        f"{VERDICTS}/test_read_process_write.py",
    ),
    "collector/verdicts/checkpoint_gaps.py": (f"{VERDICTS}/test_checkpoint_gaps.py",),
    "collector/facts/replayed_batches.py": ("tests/unit/collector/facts/test_replayed_batches.py",),
    "collector/records/xids.py": (
        "tests/unit/collector/records/test_xids.py",
        "tests/unit/collector/records/test_flink_jdbc_states.py",
    ),
    "collector/notify/silences.py": (f"{ALERTING}/test_silences.py",),
    "collector/act/orders/plan.py": (f"{ORDERS}/test_plan.py", f"{ORDERS}/test_bulk_orders.py"),
    "collector/act/orders/bulk_selection.py": (f"{ORDERS}/test_bulk_orders.py",),
    "collector/act/standing_orders/given_orders.py": (
        "tests/unit/collector/act/standing_orders/test_given_orders.py",
        "tests/unit/collector/act/standing_orders/test_repeated_acts.py",
        "tests/unit/collector/act/standing_orders/test_verdict_history.py",
    ),
    "collector/assess/findings.py": (
        f"{ALERTING}/test_state_machine.py",
        "tests/unit/collector/assess/test_incidents.py",
        *ALERT_RULES,
    ),
    "collector/act/orders/confirmation.py": ("tests/unit/collector/act/orders/test_bulk_orders.py",),
    "collector/facts/flink_sinks.py": ("tests/unit/collector/facts/test_flink_sinks.py",),
    "collector/records/flink_clusters.py": (
        "tests/unit/collector/records/test_flink_clusters.py",
        f"{VERDICTS}/test_flink_lines_of_work.py",
    ),
    "collector/records/flink_checkpoint_rows.py": (
        "tests/unit/collector/records/test_flink_checkpoint_rows.py",
        "tests/unit/collector/records/test_flink_what_is_kept.py",
    ),
    "collector/records/flink_facts.py": FLINK_STATES,
    "collector/records/flink_job_facts.py": FLINK_STATES,
    "collector/records/flink_lists.py": FLINK_STATES,
    "collector/verdicts/branch_evidence.py": (f"{VERDICTS}/test_told_evidence.py",),
    "collector/verdicts/application_evidence.py": (f"{VERDICTS}/test_told_evidence.py",),
    "collector/facts/attempts.py": ("tests/unit/collector/facts/test_attempts.py",),
    "collector/verdicts/verdict_case.py": (
        f"{VERDICTS}/test_case_times.py",
        f"{VERDICTS}/test_driver_state.py",
    ),
    "collector/facts/transaction_view.py": ("tests/unit/collector/facts/test_transaction_views.py",),
    "collector/records/branches.py": ("tests/unit/collector/facts/test_branch_ends.py",),
    "lifecycle/states.py": (f"{LIFECYCLE}/test_states.py",),
    "collector/facts/branch_view.py": ("tests/unit/collector/facts/test_branch_ends.py",),
    "pipeline/checkpoints/damaged_logs.py": (
        "tests/unit/pipeline/checkpoints/test_damaged_logs.py",
        "tests/unit/pipeline/checkpoints/test_every_damage.py",
    ),
}
