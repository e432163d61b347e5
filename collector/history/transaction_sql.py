"""The store's queries about single transactions: all that history has of one, and those of its id before it."""

# ruff: noqa: S608 (what is put together here is fixed text)

from collections.abc import Mapping
from typing import Any

from indoubt.collector.history.sql import EACH_TRANSACTION, FOUNDATIONS, OF_NEWEST, SUPERSEDED
from indoubt.collector.records.formats.transaction_state import BrokerStatus

# Of one id the newest that began before one and not before a time, newest first. Bound: id, start, producer id, the time, how many.
OF_ID_BEFORE = """
select distinct producer_id, start_ms from past.transaction_records
where transaction_id = $1 and start_ms >= $4 and start_ms <= $2 and (start_ms < $2 or producer_id < $3)
order by start_ms desc, producer_id desc limit $5"""
# Bound: id, the last and the first start (epoch ms), how many records.
TRANSACTIONS_OF_ID = OF_NEWEST.format(of_which="transaction_id = ? and start_ms <= ?")
# What tells which runs there were, and what was decided in a stretch of time. Bound: prefix, from, until, how many.
DECISIONS_OF_PERIOD = f"""
select partition, "offset", record, counts from past.decision_records
where source not in ({SUPERSEDED}) and ({FOUNDATIONS} or (prefix = ? and at_ms >= ? and at_ms <= ?))
order by "offset" limit ?"""
# Bound: pipeline, from, until, part of the text, how many.
EVENTS_OF_PERIOD = """
select partition, "offset", event from past.lifecycle_events
where pipeline = ? and at_ms >= ? and at_ms <= ? and type like 'transaction.%' and contains(event, ?)
order by at_ms, "offset" limit ?"""
# The same of chosen handles alone: every record of the decision log that names one of them, or is about the attempt of a decision
# that lists one. Bound: prefix, from, until, the handles' keys, how many.
DECISIONS_OF_HANDLES = f"""
with period as (
    select * from past.decision_records
    where source not in ({SUPERSEDED}) and ({FOUNDATIONS} or (prefix = $1 and at_ms >= $2 and at_ms <= $3))),
asked as (select unnest($4::varchar[]) as key),
listed as (
    select source, "offset", unnest(json_extract_string(record, '$.handles[*]')) as handle
    from period where type in ('decision', 'outcome')),
parsed as (
    select *, if(starts_with(handle, '{{'), json_extract_string(handle, [
        '$.resource_manager', '$.transaction', '$.producer_id', '$.producer_epoch']), null) as parts
    from listed),
named as (
    select distinct source, "offset"
    from parsed semi join asked on key = if(parts is null, handle, concat_ws(':', parts[1], parts[2], parts[3], parts[4]))),
marked as (
    select p.*, n."offset" is not null or {FOUNDATIONS} as is_asked,
           if(type = 'decision', json_extract_string(record, ['$.checkpoint_id', '$.batch', '$.attempt']), null) as attempt
    from period p left join named n using (source, "offset"))
select partition, "offset", record, counts from marked
where is_asked or attempt in (select attempt from marked where is_asked and attempt is not null)
order by "offset" limit $5"""
# What was decided in a short time, with what it rests on: few records, which cost less to read than to choose from. Bound: prefix,
# from, until, how many.
DECISIONS_NEAR = f"""
select partition, "offset", record, counts from past.decision_records
where source not in ({SUPERSEDED})
  and ({FOUNDATIONS} or (prefix = ? and at_ms >= ? and at_ms <= ? and type = 'decision'))
order by "offset" limit ?"""
# What was decided about a batch. Its text alone tells of most that they are about another. Bound: prefix, a part of the text, the
# number, how many.
DECISIONS_OF_BATCH = f"""
select * from (
    select partition, "offset", record, counts from past.decision_records
    where source not in ({SUPERSEDED}) and type = 'decision' and prefix = ? and contains(record, ?)
      and (record ->> '$.batch')::bigint = ?
    order by "offset" desc limit ?)
order by "offset" """
# Bound: transactions, producer ids, epochs, of the same length; pipeline, from, until, how many.
EVENTS_OF_HANDLES = """
with asked as (select unnest(?::varchar[]) as id, unnest(?::varchar[]) as producer_id, unnest(?::varchar[]) as epoch),
period as (
    select *, json_extract_string(event, ['$.data.transaction', '$.data.producer_id', '$.data.producer_epoch']) as named
    from past.lifecycle_events where pipeline = ? and at_ms >= ? and at_ms <= ? and type like 'transaction.%')
select partition, "offset", event
from period semi join asked on named[1] = id and named[2] = producer_id and named[3] = epoch
order by at_ms, "offset" limit ?"""

# Rows as they stand, of one transaction. Bound: id, producer id, start, how many.
RECORDS_OF_TRANSACTION = """
select * from past.transaction_records where transaction_id = ? and producer_id = ? and start_ms = ?
order by update_ms, "offset" limit ?"""
# Bound: pipeline, from, until, how many.
LIFECYCLE_OF_PERIOD = """
select source, partition, "offset", at_ms, event from past.lifecycle_events
where pipeline = ? and at_ms >= ? and at_ms <= ? order by at_ms, "offset" limit ?"""
DECISION_RECORDS_OF_PERIOD = """
select source, partition, "offset", at_ms, record from past.decision_records
where prefix = ? and at_ms >= ? and at_ms <= ? and type in ('decision', 'outcome') order by at_ms, "offset" limit ?"""
# Bound: transaction, how many.
BRANCH_RECORDS = """
select * from past.prepared_branches where transaction_id = ? order by at_ms, "offset" limit ?"""
# Bound: pipeline, number, how many.
FILES_OF_BATCH = """
select * from checkpoint_files
where pipeline = ? and number = ? order by at_ms limit ?"""
# Bound: a key as JSON has it, twice the same but for its start, how many.
AUDIT_OF_KEYS = """
select a.*, r.refers_to from audit a left join order_results r using (audit)
where contains(a.keys, ?) or contains(a.keys, ?) order by a.audit desc limit ?"""

# Records of transactions by their opening, newest first, from behind a place on. ``search_records`` puts it together of these.
# A branch of a database has no producer id; it begins when its database was first seen to list it, or says it was prepared.
BRANCH = -1
# Each condition stands so that DuckDB passes over the parts of the table whose smallest and largest values do not fit.
_SEARCHED = """
where start_ms is not null and start_ms >= $1 and start_ms < $2
  and start_ms <= $3 and (start_ms < $3 or (producer_id, transaction_id) < ($4, $5))"""
_BEGINS = "starts_with(transaction_id, list_extract({value}::varchar[], {number}))"
_XID = "regexp_matches(transaction_id, '^(X?''|-?[0-9]+_)')"
"""The name of a foreign branch that may be an xid: of which application, its format tells afterwards."""
_CONDITIONS = {
    "text": "contains(transaction_id, {value})",
    "beginnings": "({begins})",
    "beginnings_or_xids": f"({{begins}} or (producer_id = {BRANCH} and {_XID}))",
    "partitions": "list_has_any(partitions, {value}::varchar[])",
    # How a branch ended is looked at afterwards.
    "status": f"(status = {{value}} or producer_id = {BRANCH})",
    "names": "transaction_id in (select unnest({value}::varchar[]))",
}
_BRANCHES = f"""
branches as (
    select transaction_id, {BRANCH} as producer_id, min(coalesce(prepared_ms, at_ms)) as start_ms,
        []::varchar[] as partitions, '' as status
    from past.prepared_branches group by transaction_id)"""
FROM_NEWEST = (2**62, 0, "")


def search_records(wanted: Mapping[str, Any]) -> str:
    """Return the query of the conditions in ``wanted``: of ``text``, ``beginnings``, ``beginnings_or_xids``, ``partitions``,
    ``status``.

    Bound: from, until, the place (start, producer id, transaction), the value of each condition in the order of ``wanted``, how
    many records.
    """
    conditions, newest = _conditions_of(wanted)
    # The newest of each side first: DuckDB reads no more of a table than these take.
    return f"""
with {_BRANCHES},
of_kafka as (select transaction_id, producer_id, start_ms from past.transaction_records{_SEARCHED}{conditions} {newest}),
of_databases as (select transaction_id, producer_id, start_ms from branches{_SEARCHED}{conditions} {newest})
select * from of_kafka union all select * from of_databases {newest}"""


def search_branches(wanted: Mapping[str, Any]) -> str:
    """Return the query of databases' branches alone; also of ``names``, which are these. Bound: the same."""
    conditions, newest = _conditions_of(wanted)
    return (
        f"with {_BRANCHES} select transaction_id, producer_id, start_ms from branches{_SEARCHED}{conditions} {newest}"
    )


def _conditions_of(wanted: Mapping[str, Any]) -> tuple[str, str]:
    conditions = "".join(
        f"\n  and {_condition(name, f'${number}', value)}" for number, (name, value) in enumerate(wanted.items(), 6)
    )
    return conditions, f"order by start_ms desc, producer_id desc, transaction_id desc limit ${6 + len(wanted)}"


def _condition(name: str, place: str, value: Any) -> str:
    begins = _begins_so(place, len(value)) if "{begins}" in _CONDITIONS[name] else ""
    return _CONDITIONS[name].format(value=place, begins=begins)


def _begins_so(place: str, beginnings: int) -> str:
    return " or ".join(_BEGINS.format(value=place, number=number) for number in range(1, beginnings + 1))


_UNDONE = ", ".join(
    f"'{status.name}'"
    for status in (BrokerStatus.PREPARE_ABORT, BrokerStatus.PREPARE_EPOCH_FENCE, BrokerStatus.COMPLETE_ABORT)
)


def undone(beginnings: int) -> str:
    """Return the query of transactions that were undone, newest end first: when, id, producer id, start.

    Bound: the end from which on, the place behind which (end, id, producer id, start), where there are ``beginnings`` a list of so
    many that their ids begin with, how many. The first record of an abort is looked for up to an hour before that end.
    """
    begins = f" and ({_begins_so('$6', beginnings)})" if beginnings else ""
    return f"""
with of_kafka as (
    select min(update_ms) as ended_ms, transaction_id, producer_id, start_ms from past.transaction_records
    where status in ({_UNDONE}) and start_ms is not null and update_ms >= $1 - 3600000 and update_ms <= $2{begins}
    group by transaction_id, producer_id, start_ms),
of_databases as (
    select max(at_ms) filter (what = 'gone') as ended_ms, transaction_id, {BRANCH} as producer_id,
        min(coalesce(prepared_ms, at_ms)) as start_ms
    from past.prepared_branches where true{begins}
    group by transaction_id having bool_or(what = 'gone' and proof = 'tombstone'))
select * from (select * from of_kafka union all select * from of_databases)
where ended_ms >= $1 and (ended_ms, transaction_id, producer_id, start_ms) < ($2, $3, $4, $5)
order by ended_ms desc, transaction_id desc, producer_id desc, start_ms desc limit ${7 if beginnings else 6}"""


def transactions_of_beginnings(beginnings: int) -> str:
    """Return the query of all that began in a stretch of time, of ids that begin so.

    Bound: a list of so many ``beginnings``; from, until (epoch ms), how many records.
    """
    records = f"""
    select * from past.transaction_records where ({_begins_so("$1", beginnings)}) and start_ms >= $2 and start_ms <= $3
    order by rowid limit $4"""
    return f"with of_period as ({records}){EACH_TRANSACTION.format(rows='of_period', of_those='')}"


def records_of_beginnings(beginnings: int) -> str:
    """Return the query of how many records these are. Bound: the same without how many records."""
    begins = _begins_so("$1", beginnings)
    return f"select count(*) from past.transaction_records where ({begins}) and start_ms >= $2 and start_ms <= $3"


# Bound: ids, producer ids, starts, of the same length; the first and the last start.
TRANSACTIONS_OF_IDENTITIES = f"""
with chosen as (
    select unnest(?::varchar[]) as transaction_id, unnest(?::bigint[]) as producer_id, unnest(?::bigint[]) as start_ms)
{
    EACH_TRANSACTION.format(
        rows="past.transaction_records where start_ms >= ? and start_ms <= ?",
        of_those="semi join chosen using (transaction_id, producer_id, start_ms)",
    )
}"""
# Bound: names.
BRANCHES_OF_NAMES = """
select * from past.prepared_branches where transaction_id in (select unnest(?::varchar[])) order by source, "offset" """
# Who took these ids. Bound: ids, from, until (epoch ms), how many.
INITS_OF_PERIOD = """
select transaction_id, update_ms, producer_id, producer_epoch from past.transaction_records
where start_ms is null and status = 'EMPTY' and transaction_id in (select unnest(?::varchar[]))
  and update_ms >= ? and update_ms <= ? order by update_ms limit ?"""
# Of what the file has: those of a moment ago. Bound: producer ids.
IDS_OF_PRODUCERS = """
select distinct producer_id, transaction_id from transaction_records where producer_id in (select unnest(?::bigint[]))"""
PARTITIONS = "select distinct unnest(partitions) from past.transaction_records"

# What was aborted of our pipelines, and which commit decision lists it: few of all records, so that the JSON of those decisions
# alone is read that were made while it was open. An id has a transaction with each second batch, and its producer id stays: when
# the handle was opened tells which it was, by clocks that differ by less than two minutes. Bound: how many aborted ones at most.
_SPAN = 120_000
DECIDED_AND_ABORTED = f"""
with prefixes as (select distinct prefix from decision_records where type = 'run_started'),
aborted as (
    select * from (
        select transaction_id, producer_id, start_ms, update_ms as ended_ms,
               regexp_extract(transaction_id, '^(.+)-[0-9]+-[01]$', 1) as prefix
        from transaction_records where status = 'COMPLETE_ABORT' and start_ms is not null
        union all
        select transaction_id, {BRANCH}, min(at_ms), max(at_ms), split_part(transaction_id, ':', 1)
        from prepared_branches group by transaction_id having bool_or(what = 'gone' and proof = 'tombstone'))
    semi join prefixes using (prefix) order by ended_ms desc limit ?),
spans as (
    select distinct prefix, unnest(range(greatest(start_ms, ended_ms - 86400000) // {_SPAN} - 1, ended_ms // {_SPAN} + 2)) as span
    from aborted),
listed as (
    select source, "offset", d.prefix, record ->> '$.checkpoint_id' as checkpoint_id,
           unnest(json_extract(record, '$.handles')::json[]) as handle
    from decision_records d semi join spans s on d.prefix = s.prefix and d.at_ms // {_SPAN} = s.span
    where type = 'decision' and counts and record ->> '$.ruling' = 'commit' and source not in ({SUPERSEDED})),
handles as (
    select source, "offset", prefix, checkpoint_id, handle ->> '$.transaction' as transaction_id,
           coalesce((handle ->> '$.producer_id')::bigint, {BRANCH}) as producer_id,
           (handle ->> '$.opened_at_ms')::bigint // {_SPAN} as span
    from listed),
opened as (
    select *, if(producer_id = {BRANCH}, null, unnest([-1, 0, 1]) + start_ms // {_SPAN}) as span from aborted)
select distinct o.transaction_id, o.producer_id, o.start_ms, h.source, h."offset", h.prefix, h.checkpoint_id
from opened o join handles h on o.prefix = h.prefix and o.transaction_id = h.transaction_id and o.producer_id = h.producer_id
    and coalesce(o.span, {BRANCH}) = if(h.producer_id = {BRANCH}, {BRANCH}, h.span)"""
# The last commit decision of these checkpoint ids. Bound: prefixes, checkpoint ids, of the same length; the first offset.
LAST_DECISIONS = f"""
select source, max("offset"), arg_max(record, "offset") from decision_records
where type = 'decision' and counts and record ->> '$.ruling' = 'commit' and source not in ({SUPERSEDED})
  and (prefix, record ->> '$.checkpoint_id') in (select unnest(?::varchar[]), unnest(?::varchar[])) and "offset" >= ?
group by source, prefix, record ->> '$.checkpoint_id'"""
# Bound: ids, producer ids, epochs, of the same length.
IDENTITIES_OF_HANDLES = """
select distinct transaction_id, producer_id, start_ms from past.transaction_records
semi join (
    select unnest(?::varchar[]) as transaction_id, unnest(?::bigint[]) as producer_id, unnest(?::integer[]) as producer_epoch)
    using (transaction_id, producer_id, producer_epoch)
where start_ms is not null"""
