"""What prepared transactions hold in PostgreSQL, and who waits behind them. Source: the views pg_locks, pg_prepared_xacts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from indoubt.resource_managers.database.session import BranchLocks, HeldLock, WaitingSession

if TYPE_CHECKING:
    from indoubt.resource_managers.database.session import DatabaseSession

MAX_ROWS = 1_000

# A prepared transaction has no process. All its locks are of one virtual transaction, which the lock on its own transaction id
# tells: that of the session that prepared it, and after a restart of the server -1 and the transaction id.
BRANCHES = """
with locks as materialized (select * from pg_locks),
branches as (
    select p.gid, p.transaction, own.virtualtransaction
    from pg_prepared_xacts p
    join locks own on own.transactionid = p.transaction and own.granted and own.pid is null
    where p.database = current_database())"""
HELD = f"""{BRANCHES}
select b.gid, l.relation::regclass::text, l.mode
from branches b join locks l on l.virtualtransaction = b.virtualtransaction and l.pid is null
where l.locktype = 'relation' and l.granted
order by 1, 2, 3 limit %s"""  # noqa: S608 (made of constants)

# A row that it wrote is waited for by its transaction id. A relation is waited for by name: pg_blocking_pids says 0 for a
# prepared transaction. waitstart is read as JSON, because servers before 14 have no such column.
WAITING = f"""{BRANCHES}
select b.gid, w.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''),
       coalesce(case when w.locktype = 'relation' then w.relation::regclass::text end, ''), w.mode,
       (extract(epoch from (to_jsonb(w) ->> 'waitstart')::timestamptz) * 1000)::bigint
from branches b
join locks w on not w.granted and (
    w.transactionid = b.transaction
    or (w.locktype = 'relation' and 0 = any(pg_blocking_pids(w.pid)) and exists (
        select from locks h
        where h.virtualtransaction = b.virtualtransaction and h.pid is null and h.locktype = 'relation'
          and h.relation = w.relation and h.database = w.database)))
left join pg_stat_activity a on a.pid = w.pid
order by 1, 7, 2 limit %s"""  # noqa: S608 (made of constants)


def branch_locks(session: DatabaseSession) -> dict[str, BranchLocks]:
    """Return locks and waiting sessions of each prepared transaction of this database, by gid; MAX_ROWS of each at most."""
    held: dict[str, list[HeldLock]] = {}
    waiting: dict[str, list[WaitingSession]] = {}
    for gid, relation, mode in session.query(HELD, (MAX_ROWS,)):
        held.setdefault(gid, []).append(HeldLock(relation=relation, mode=mode))
    for gid, process, user, application, relation, mode, since_ms in session.query(WAITING, (MAX_ROWS,)):
        waiting.setdefault(gid, []).append(
            WaitingSession(
                process=process, user=user, application=application, relation=relation, mode=mode, since_ms=since_ms
            )
        )
    return {
        gid: BranchLocks(held=tuple(held.get(gid, ())), waiting=tuple(waiting.get(gid, ())))
        for gid in sorted(held.keys() | waiting.keys())
    }
