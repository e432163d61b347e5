"""The store's queries, each named for what it answers. Values are always bound."""

RECORD_OPENING = "insert into openings values (?)"

NEXT_OFFSETS = "select partition, next_offset from source_offsets where source = ?"
MOVE_OFFSET = "insert or replace into source_offsets values (?, ?, ?)"

EVENTS_FOLDED = """
select (select count(*) from transaction_records) + (select count(*) from lifecycle_events)
     + (select count(*) from decision_records) + (select count(*) from checkpoint_files)
     + (select count(*) from flink_checkpoints) + (select count(*) from flink_jobs)
     + (select count(*) from prepared_branches) + (select count(*) from transaction_offsets)"""
MALFORMED_COUNT = "select count(*) from malformed"

# Every transaction whose end is not in history, and the newest ones whose end is: what current state is made of.
RECORDS_OF_CURRENT_STATE = """
with transactions as (
    select transaction_id, producer_id, start_ms, max(update_ms) as updated_ms,
           bool_or(status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT')) as is_final
    from transaction_records where start_ms is not null group by all),
kept as (
    select * from transactions where not is_final
    union all
    (select * from transactions where is_final order by updated_ms desc limit ?))
select r.* from transaction_records r semi join kept k using (transaction_id, producer_id, start_ms)
union all
(select * from transaction_records where start_ms is null order by update_ms desc limit ?)"""
EVENTS_OF_CURRENT_STATE = """
select partition, "offset", event from lifecycle_events where type not like 'pipeline.%' order by rowid desc limit ?"""
PIPELINE_EVENTS = """
select partition, "offset", event from lifecycle_events where type like 'pipeline.%'
qualify row_number() over (partition by pipeline, type order by at_ms desc) <= 4"""
DECISIONS_OF_CURRENT_STATE = """
select partition, "offset", record from (
    select * from decision_records where type = 'run_started'
    union all
    (select * from decision_records where type <> 'run_started' order by "offset" desc limit ?))
order by "offset" """
# Every branch that is listed, with all that was seen of it, since its first time is its age; of those that are listed no more
# the newest.
BRANCHES_OF_CURRENT_STATE = """
with last as (
    select place, transaction_id, arg_max(what, "offset") as what, max(at_ms) as at_ms from prepared_branches group by all),
kept as (
    select place, transaction_id from last where what = 'listed'
    union all
    (select place, transaction_id from last where what <> 'listed' order by at_ms desc limit ?))
select b.* from prepared_branches b semi join kept k using (place, transaction_id) order by source, "offset" """
CHECKPOINT_FILES = "select * from checkpoint_files order by rowid desc limit ?"
# Every id whose newest record is not that it expired, with the first and last time of what is known of it.
KNOWN_IDS = """
select transaction_id, min(update_ms), max(update_ms) from transaction_records
group by transaction_id having arg_max(status, rowid) <> 'EXPIRED'"""
RECORDS_OF_IDS = """
select * from transaction_records where starts_with(transaction_id, ?) order by rowid desc limit ?"""
DECISIONS_OF_PREFIX = """
select partition, "offset", record from (
    select * from decision_records where prefix = ? order by "offset" desc limit ?)
order by "offset" """
OFFSETS_OF_TRANSACTIONS = "select * from transaction_offsets order by rowid desc limit ?"
FLINK_CHECKPOINTS = "select * from flink_checkpoints order by rowid desc limit ?"
FLINK_JOBS = "select * from flink_jobs order by rowid desc limit ?"
# The newest: a directory that is followed again is listed once, and only its newest files are read.
FILES_OF_SOURCE = """
select distinct kind, number, modified_ns from (
    select kind, number, modified_ns from checkpoint_files where source = ? order by rowid desc limit ?)"""
MALFORMED_OF_SOURCE = 'select distinct partition, "offset" from malformed where source = ?'
ORDERS_CARRIED_OUT = """
select audit, at_ms, who, action, detail from audit
where outcome in ('accepted', 'failed', 'pending') order by audit desc limit ?"""

LAST_AUDIT = "select coalesce(max(audit), 0) from audit"
ADD_AUDIT = "insert into audit values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
AUDIT = """
select a.*, r.refers_to from audit a left join order_results r using (audit) order by a.audit desc limit ?"""

LAST_INTENT = "select coalesce(max(intent), 0) from order_intents"
ADD_INTENT = "insert into order_intents values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
ADD_ORDER_RESULT = "insert into order_results values (?, ?, ?, ?)"
ORDER_ANSWER = "select digest, status, answer from order_answers where who = ? and idempotency_key = ?"
ADD_ORDER_ANSWER = "insert into order_answers values (?, ?, ?, ?, ?, ?)"
RESULT_OF_INTENT = """
select min(audit), arg_max("unknown", audit) from order_results where intent = ? having count(*) > 0"""
# The newest row about an intent says what is not known still; without any, the collector ended in the middle.
UNSETTLED_INTENTS = """
with results as (
    select intent, min(audit) as first_audit, arg_max("unknown", audit) as "unknown" from order_results group by intent)
select i.*, r.first_audit, r."unknown" from order_intents i left join results r using (intent)
where r.first_audit is null or r."unknown" <> '[]' order by i.intent"""
MALFORMED = """
select at_ms, source, partition, "offset", error, value from malformed order by at_ms desc, "offset" desc limit ?"""

# Ends per minute by the coordinator's own times; the first record of an end has its time.
ENDS_PER_MINUTE = """
with ends as (
    select min(update_ms) as ended_ms, bool_or(status like '%COMMIT') as is_commit
    from transaction_records
    where update_ms >= ? and start_ms is not null
      and status in ('PREPARE_COMMIT', 'PREPARE_ABORT', 'COMPLETE_COMMIT', 'COMPLETE_ABORT', 'PREPARE_EPOCH_FENCE')
    group by transaction_id, producer_id, start_ms)
select ended_ms // 60000 * 60000 as minute_ms, count(*) filter (is_commit) as committed,
       count(*) filter (not is_commit) as aborted
from ends group by all order by all"""
ENDS_SINCE = """
select count(*) filter (status = 'COMPLETE_COMMIT'), count(*) filter (status = 'COMPLETE_ABORT')
from transaction_records where update_ms >= ? and start_ms is not null"""
