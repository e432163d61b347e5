"""The store's queries, each named for what it answers. Values are always bound."""

# ruff: noqa: S608 (what is put together here is fixed text)

from indoubt.collector.history.observation_tables import QUARANTINED as QUARANTINED_TABLE
from indoubt.collector.history.observation_tables import TABLES, TRANSACTION_RECORDS
from indoubt.collector.records.facts import FROM_RECORDS, FromRecords
from indoubt.collector.records.formats.transaction_state import BrokerStatus

RECORD_OPENING = "insert into openings values (?)"

NEXT_OFFSETS = "select partition, next_offset from source_offsets where source = ?"
SOURCE_OFFSETS = "select * from source_offsets"
EPOCHS = "select * from source_epochs"
EPOCH_OF_TOPIC = "select epoch, source, topic_id from source_epochs where topic = ? order by epoch desc limit 1"
BEGIN_EPOCH = "insert into source_epochs values (?, ?, ?, ?, ?)"
NAME_EPOCH = "update source_epochs set topic_id = ? where topic = ? and epoch = ?"
# Bound: sources, partitions, next offsets, of the same length.
MOVE_OFFSETS = """
insert or replace into source_offsets select unnest(?::varchar[]), unnest(?::integer[]), unnest(?::bigint[])"""

_FOLDED = " + ".join(f"(select count(*) from {name})" for name in TABLES if name != QUARANTINED_TABLE.name)
EVENTS_FOLDED = f"""
select {_FOLDED}
     + (select coalesce(sum(retired), 0)::bigint from retired_rows where table_name <> 'quarantined')"""
QUARANTINED_COUNT = """
select (select count(*) from quarantined)
     + (select coalesce(sum(retired), 0)::bigint from retired_rows where table_name = 'quarantined')"""

# Sources that another topic of the same name has taken the place of.
SUPERSEDED = "select source from source_epochs qualify epoch < max(epoch) over (partition by topic)"


def _aggregate(rule: FromRecords) -> str:
    column = TRANSACTION_RECORDS.column_of(rule.field)
    statuses = ", ".join(f"'{status.name}'" for status in rule.statuses)
    chosen = "" if len(rule.statuses) == len(BrokerStatus) else f" filter (status in ({statuses}))"
    return f"{'min' if rule.takes_min else 'max'}({column}){chosen}"


# One row of each transaction among rows of transaction_records: the fields of BrokerTransaction, its identity in three.
EACH_TRANSACTION = f"""
select transaction_id, producer_id, start_ms, list_distinct(flatten(list(partitions))),
       min(regexp_replace(source, '#[0-9]+$', '')), {", ".join(map(_aggregate, FROM_RECORDS.values()))}
from (select * from {{rows}}) r {{of_those}} group by all"""

# Every transaction whose end is not in history, and the newest ones whose end is, one row each: what current state is made of.
# An id has one transaction at a time, so the last record of each says whether one is open. Bound: how many of the newest.
TRANSACTIONS_OF_CURRENT_STATE = f"""
with last as (
    select transaction_id, producer_id, start_ms, status from transaction_records where rowid in (
        select arg_max(rowid, "offset") from transaction_records
        where source not in ({SUPERSEDED}) group by source, partition, transaction_id)),
kept as (
    select transaction_id, producer_id, start_ms from last
    where start_ms >= 0 and status not in ('COMPLETE_COMMIT', 'COMPLETE_ABORT', 'DEAD')
    union
    select * from (
        select transaction_id, producer_id, start_ms from transaction_records
        where status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT', 'DEAD') and start_ms is not null order by update_ms desc limit ?))
{
    EACH_TRANSACTION.format(
        rows="transaction_records where update_ms >= (select min(start_ms) from kept)",
        of_those="semi join kept k using (transaction_id, producer_id, start_ms)",
    )
}"""
INITS_OF_CURRENT_STATE = """
select transaction_id, update_ms, producer_id, producer_epoch from transaction_records
where start_ms is null and status = 'EMPTY' order by update_ms desc limit ?"""
EVENTS_OF_CURRENT_STATE = """
select partition, "offset", event from lifecycle_events
where rowid > (select max(rowid) from lifecycle_events) - ? and type like 'transaction.%'"""
# Where the newest begin is found first: the text of all of them takes ten times as long to read.
CHECKPOINT_EVENTS = """
select partition, "offset", event from lifecycle_events where type like 'checkpoint.%' and rowid >= (
    select min(rowid) from (select rowid from lifecycle_events where type like 'checkpoint.%' order by rowid desc limit ?))
order by rowid desc"""
PIPELINE_EVENTS = """
select partition, "offset", event from lifecycle_events where type like 'pipeline.%'
qualify row_number() over (partition by pipeline, type order by at_ms desc) <= 4"""
# Records of the decision log on which it rests whether others count: each stays, and is loaded.
FOUNDATIONS = "type in ('run_started', 'checkpoint_taken_over')"
# Of the decision log: every start of a run and every checkpoint id that was taken over, the newest other records, and of each
# prefix the newest ones, however long it has been idle; and single ones besides. Bound: how many of the newest, how many of each
# prefix, topics and offsets of the single ones.
DECISIONS_OF_CURRENT_STATE = f"""
select partition, "offset", record, counts from decision_records
where source not in ({SUPERSEDED})
qualify {FOUNDATIONS} or row_number() over (partition by {FOUNDATIONS} order by "offset" desc) <= ?
    or row_number() over (partition by prefix, {FOUNDATIONS} order by "offset" desc) <= ?
    or (source, "offset") in (select unnest(?::varchar[]), unnest(?::bigint[]))
order by "offset" """
# Every branch that is listed, with all that was seen of it, since its first time is its age; of those that are listed no more
# the newest.
BRANCHES_OF_CURRENT_STATE = """
with last as (
    select instance, transaction_id, arg_max(what, "offset") as what, max(at_ms) as at_ms from prepared_branches group by all),
kept as (
    select instance, transaction_id from last where what = 'listed'
    union all
    (select instance, transaction_id from last where what <> 'listed' order by at_ms desc limit ?))
select b.* from prepared_branches b semi join kept k using (instance, transaction_id) order by source, "offset" """
CHECKPOINT_FILES = "select * from checkpoint_files order by rowid desc limit ?"
# Every id whose newest record is not that it expired, with the first and last time of what is known of it.
KNOWN_IDS = """
select transaction_id, min(update_ms), max(update_ms) from transaction_records
group by transaction_id having arg_max(status, rowid) <> 'EXPIRED'"""
# What the newest records tell of each transaction: of ids that begin so, and of one id. With an order and a limit DuckDB finds the
# rows first, and reads their other columns then: a third less processor time.
# Bound: the beginning or the id, since which start, how many records.
OF_NEWEST = f"""
with newest as (
    select * from past.transaction_records where {{of_which}} and start_ms >= ?
    order by rowid desc limit ?)
{EACH_TRANSACTION.format(rows="newest", of_those="")}"""
TRANSACTIONS_OF_IDS = OF_NEWEST.format(of_which="starts_with(transaction_id, ?)")
TRANSACTIONS_OF_ONE_ID = OF_NEWEST.format(of_which="transaction_id = ?")
INITS_OF_IDS = """
select transaction_id, update_ms, producer_id, producer_epoch from past.transaction_records
where start_ms is null and status = 'EMPTY' and starts_with(transaction_id, ?) order by update_ms desc limit ?"""
# Every start of a run and every checkpoint id that was taken over, and the newest other records of one prefix. Bound: the
# prefix, how many.
DECISIONS_OF_PREFIX = f"""
select partition, "offset", record, counts from past.decision_records
where source not in ({SUPERSEDED}) and ({FOUNDATIONS} or prefix = ?)
qualify {FOUNDATIONS} or row_number() over (partition by {FOUNDATIONS} order by "offset" desc) <= ?
order by "offset" """
OFFSETS_OF_TRANSACTIONS = "select * from transaction_offsets order by rowid desc limit ?"
FLINK_CHECKPOINTS = "select * from flink_checkpoints order by rowid desc limit ?"
FLINK_JOBS = """
select * from (select * from flink_jobs order by rowid desc limit ?) order by source, "offset" """
# The newest: a directory that is followed again is listed once, and only its newest files are read.
FILES_OF_SOURCE = """
select distinct kind, number, modified_ns from (
    select kind, number, modified_ns from checkpoint_files where source = ? order by rowid desc limit ?)"""
QUARANTINED_OF_SOURCE = 'select distinct partition, "offset" from quarantined where source = ?'
ORDERS_CARRIED_OUT = """
select audit, at_ms, who, action, detail from audit
where outcome in ('accepted', 'failed', 'pending') order by audit desc limit ?"""

LAST_AUDIT = "select coalesce(max(audit), 0) from audit"
ADD_AUDIT = "insert into audit values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
# Orders that have a text in them, and of which one of these keys is, as their JSON has it. Bound: the text; the keys; before which
# one; how many. An empty text, and no key, fit every order.
_AUDIT_FITS = """
($1 = '' or contains(lower(concat_ws(chr(10), a.who, a.action, a.reason, a.outcome, a.detail, a.keys)), lower($1)))
and (len($2::varchar[]) = 0 or exists (select 1 from unnest($2::varchar[]) as asked(name) where contains(a.keys, asked.name)))
and a.audit < $3"""
AUDIT = f"""
select a.*, r.refers_to, i.at_ms as given_at_ms from audit a left join order_results r using (audit)
left join order_intents i using (intent)
where {_AUDIT_FITS} order by a.audit desc limit $4"""
AUDIT_FROM_NEWEST = (2**62,)
AUDIT_BEFORE = f"select count(*) from audit a where {_AUDIT_FITS}"

# Orders that no person gave: their evidence begins with the standing order's name, whatever anybody writes as a reason.
STANDING_ORDERS_GIVEN = """
select audit, at_ms, action, keys, outcome, evidence from audit
where evidence like '[{"standing_order":%' order by audit"""
STANDING_ORDERS_SWITCH = """
select at_ms, who, action, reason from audit
where action in ('stop standing orders', 'start standing orders') and outcome = 'accepted' order by audit desc limit 1"""

LAST_INTENT = "select coalesce(max(intent), 0) from order_intents"
ADD_INTENT = "insert into order_intents values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
ADD_ORDER_RESULT = "insert into order_results values (?, ?, ?, ?)"
ORDER_ANSWER = "select digest, status, answer from order_answers where who = ? and idempotency_key = ?"
ADD_ORDER_ANSWER = "insert into order_answers values (?, ?, ?, ?, ?, ?)"
END_ORDER_RUN = "update order_answers set status = ?, answer = ? where who = ? and idempotency_key = ?"
ORDER_RUNS_UNDER_WAY = "select who, digest, answer from order_answers where status = ? order by at_ms"
RESULT_OF_INTENT = """
select min(audit), arg_max("unknown", audit) from order_results where intent = ? having count(*) > 0"""
# The newest row about an intent says what is not known still; without any, the collector ended in the middle.
UNSETTLED_INTENTS = """
with results as (
    select intent, min(audit) as first_audit, arg_max("unknown", audit) as "unknown" from order_results group by intent)
select i.*, r.first_audit, r."unknown" from order_intents i left join results r using (intent)
where r.first_audit is null or r."unknown" <> '[]' order by i.intent"""
_BEFORE = """from quarantined where (at_ms, "offset", source, partition) < (?, ?, ?, ?)"""
QUARANTINED = f"""
select at_ms, source, partition, "offset", error, value {_BEFORE}
order by at_ms desc, "offset" desc, source desc, partition desc limit ?"""
QUARANTINED_FROM_NEWEST = (2**62, 0, "", 0)
QUARANTINED_BEFORE = f"select count(*) {_BEFORE}"

ENDS_SINCE = """
select count(*) filter (status = 'COMPLETE_COMMIT'), count(*) filter (status = 'COMPLETE_ABORT')
from transaction_records where update_ms >= ? and start_ms is not null"""

# How long transactions were open, of each application those that ended under its newest timeout. A percentile is the longest of the
# bucket that it lies in. Bound: since when, what history counts by, and the name of the application of each.
LENGTHS_COUNTED_SINCE = "select distinct application from transaction_lengths where begin_ms + span_ms > ?"
LENGTHS_SINCE = """
with counted as (
    select l.* replace (n.name as application) from transaction_lengths l
    join (select unnest($2::varchar[]) as application, unnest($3::varchar[]) as name) n using (application)
    where begin_ms + span_ms > $1),
newest as (select application, arg_max(timeout_ms, begin_ms) as timeout_ms from counted group by all),
buckets as (
    select application, timeout_ms, timed_out, bucket, sum(transactions) as n, max(longest_ms) as most_ms,
           arg_max(longest_transaction, longest_ms) as whose
    from counted join newest using (application, timeout_ms) group by all),
shares as (
    select *, sum(n) over (partition by application, timed_out order by bucket)
              / sum(n) over (partition by application, timed_out) as share from buckets)
select application, timeout_ms, coalesce(sum(n) filter (not timed_out), 0)::bigint as ended,
       coalesce(sum(n) filter (timed_out), 0)::bigint as timed_out,
       min(most_ms) filter (not timed_out and share >= 0.5) as p50_ms,
       min(most_ms) filter (not timed_out and share >= 0.95) as p95_ms,
       min(most_ms) filter (not timed_out and share >= 0.99) as p99_ms,
       max(most_ms) filter (not timed_out) as longest_ms,
       arg_max(whose, most_ms) filter (not timed_out) as longest_transaction
from shares group by all"""

# What the series of GET /series are made of. Bound: from, length of a bucket, from, until (epoch ms); buckets count from 0.
SERIES_OF_COUNTS = """
select (begin_ms - ?) // ?, application, outcome, sum(transactions)::bigint
from transaction_counts where begin_ms >= ? and begin_ms < ? and span_ms <= 60000 group by all"""
# Aborts by cause, over any time. Bound: from, length of a bucket, from, until (epoch ms).
ABORTS_BY_CAUSE = """
select (begin_ms - ?) // ?, application, cause, sum(transactions)::bigint
from abort_counts where begin_ms >= ? and begin_ms < ? group by all"""
FIRST_ABORT = "select min(begin_ms) from abort_counts"
SERIES_OF_WAITS = """
select (begin_ms - ?) // ?, application, max(waiting), max(longest_wait_ms), max(hidden), max(lag)
from reader_waits where begin_ms >= ? and begin_ms < ? and span_ms <= 60000 group by all"""
SERIES_OF_CHECKPOINTS = """
select (begin_ms - ?) // ?, pipeline, max(longest_ms) from longest_checkpoints
where begin_ms >= ? and begin_ms < ? and span_ms <= 60000 group by all"""
SERIES_OF_GROUPS = """
select consumer_group, list(bucket), list(lag), list(hidden)
from (select (begin_ms - ?) // ? as bucket, consumer_group, max(lag) as lag, max(hidden) as hidden from group_lags
      where begin_ms >= ? and begin_ms < ? group by all)
group by all"""
# Of one partition; what was before stands in the bucket -1. Bound: from, length of a bucket, topic, partition, until.
SERIES_OF_ENDS = """
select greatest((begin_ms - $1) // $2, -1), arg_max(high_watermark, begin_ms), max(hidden)
from partition_ends where topic = $3 and partition = $4 and begin_ms < $5 group by all"""
# Lengths count by the minute, later by the hour. Bound: from, until.
SERIES_OF_LENGTHS = """
select begin_ms, span_ms, application, max(timeout_ms), max(longest_ms) from transaction_lengths
where begin_ms + span_ms > ? and begin_ms < ? group by all order by begin_ms"""

ADD_READER_WAITS = """
insert into reader_waits select unnest(?::bigint[]), ?, unnest(?::varchar[]), unnest(?::bigint[]), unnest(?::bigint[]),
       unnest(?::bigint[]), unnest(?::bigint[])"""
ADD_GROUP_LAGS = """
insert into group_lags select unnest(?::bigint[]), ?, unnest(?::varchar[]), unnest(?::bigint[]), unnest(?::bigint[])"""
ADD_PARTITION_ENDS = """
insert into partition_ends select unnest(?::bigint[]), ?, unnest(?::varchar[]), unnest(?::integer[]), unnest(?::bigint[]),
       unnest(?::bigint[])"""
KEEP_SOURCE_WATCHES = """
insert or replace into source_watches select unnest(?::varchar[]), unnest(?::bigint[]), unnest(?::bigint[])"""
# Bound: from, until. And the first time at which anything was noted: before it nothing is known.
SOURCE_WATCHES = "select source, from_ms, until_ms from source_watches where until_ms > ? and from_ms < ? order by all"
FIRST_WATCH = "select min(from_ms) from source_watches"

# Marks of a time, newest first. Bound: from, until (epoch ms), how many.
ORDERS_OF_TIME = """
select a.audit, a.at_ms, a.who, a.action, a.keys, a.outcome from audit a left join order_results r using (audit)
where a.at_ms >= ? and a.at_ms < ? and a.action in ('commit', 'abort', 'settle', 'restart', 'stop')
  and a.outcome in ('accepted', 'pending', 'failed') and r.refers_to is null
order by a.audit desc limit ?"""
PIPELINE_EVENTS_OF_TIME = """
select type, at_ms, pipeline, coalesce(try(event ->> '$.data.reason'), '') from lifecycle_events
where at_ms >= ? and at_ms < ? and type like 'pipeline.%' and type <> 'pipeline.alive' order by at_ms desc limit ?"""
ALERTS_OF_TIME = """
select fired_ms, finding from alerts where fired_ms >= ? and fired_ms < ? order by fired_ms desc limit ?"""
