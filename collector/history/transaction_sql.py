"""The store's queries about single transactions: all that history has of one, and those of its id before it."""

# ruff: noqa: S608 (what is put together here is fixed text)

from collector.history.sql import EACH_TRANSACTION, FOUNDATIONS, SUPERSEDED

# Bound: id, producer id, from, until (epoch ms, of the start).
TRANSACTIONS_OF_PRODUCER = EACH_TRANSACTION.format(
    rows="""transaction_records
    where transaction_id = ? and producer_id = ? and start_ms >= ? and start_ms <= ?""",
    of_those="",
)
# Of one id the newest that began before one, newest first. Bound: id, start, producer id, how many, id.
_CHOSEN = EACH_TRANSACTION.format(
    rows="transaction_records where transaction_id = ?", of_those="semi join chosen using (producer_id, start_ms)"
)
TRANSACTIONS_OF_ID_BEFORE = f"""
with chosen as (
    select producer_id, start_ms from transaction_records
    where transaction_id = ? and start_ms is not null and (start_ms, producer_id) < (?, ?)
    group by all order by start_ms desc, producer_id desc limit ?)
{_CHOSEN}"""
COUNT_OF_ID_BEFORE = """
select count(*) from (
    select distinct producer_id, start_ms from transaction_records
    where transaction_id = ? and start_ms is not null and (start_ms, producer_id) < (?, ?))"""
# What tells which runs there were, and what was decided in a stretch of time. Bound: prefix, from, until, how many.
DECISIONS_OF_PERIOD = f"""
select partition, "offset", record, counts from decision_records
where source not in ({SUPERSEDED}) and ({FOUNDATIONS} or (prefix = ? and at_ms >= ? and at_ms <= ?))
order by "offset" limit ?"""
# Bound: pipeline, from, until, part of the text, how many.
EVENTS_OF_PERIOD = """
select partition, "offset", event from lifecycle_events
where pipeline = ? and at_ms >= ? and at_ms <= ? and type like 'transaction.%' and contains(event, ?)
order by at_ms, "offset" limit ?"""

# Rows as they stand, of one transaction. Bound: id, producer id, start, how many.
RECORDS_OF_TRANSACTION = """
select * from transaction_records where transaction_id = ? and producer_id = ? and start_ms = ?
order by update_ms, "offset" limit ?"""
# Bound: pipeline, from, until, how many.
LIFECYCLE_OF_PERIOD = """
select source, partition, "offset", at_ms, event from lifecycle_events
where pipeline = ? and at_ms >= ? and at_ms <= ? order by at_ms, "offset" limit ?"""
DECISION_RECORDS_OF_PERIOD = """
select source, partition, "offset", at_ms, record from decision_records
where prefix = ? and at_ms >= ? and at_ms <= ? and type in ('decision', 'outcome') order by at_ms, "offset" limit ?"""
# Bound: transaction, how many.
BRANCH_RECORDS = """
select * from prepared_branches where transaction_id = ? order by at_ms, "offset" limit ?"""
# Bound: pipeline, number, how many.
FILES_OF_BATCH = """
select * from checkpoint_files
where pipeline = ? and number = ? order by at_ms limit ?"""
# Bound: a key as JSON has it, twice the same but for its start, how many.
AUDIT_OF_KEYS = """
select a.*, r.refers_to from audit a left join order_results r using (audit)
where contains(a.keys, ?) or contains(a.keys, ?) order by a.audit desc limit ?"""
