"""Writes an archive of history as collectors would have written it: any number of clusters, days and records, in minutes."""

# ruff: noqa: S608 (what is put together here are numbers, and paths of our own)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb

from indoubt.lifecycle.durations import DAY_MS
from indoubt.resource_managers.history_archive import (
    BRANCHES,
    TRANSACTIONS,
    ArchivedFile,
    HistoryArchive,
    Manifest,
    file_path,
    metadata_of,
)

RECORDS_OF_EACH = 4
APPLICATIONS, IDS_OF_EACH, NEW_IDS_A_DAY = 20, 50, 2
BRANCHES_A_DAY = 200
FIRST_DAY = 20_700
"""Days since 1970-01-01."""

# Every fiftieth transaction is aborted, every hundredth of those is lost; one in a hundred is open for long.
_TRANSACTIONS = """
select '__transaction_state' as source, (id % 50)::integer as partition, number * 4 + step as "offset",
       'app-' || application || '-' || id as transaction_id, (application * 100000 + id)::bigint as producer_id,
       0::integer as producer_epoch,
       case step when 0 then 'ONGOING' when 1 then 'ONGOING' when 2 then 'PREPARE_' || ending else 'COMPLETE_' || ending end
           as status,
       start_ms, start_ms + open_ms * step // 3 as update_ms, 60000::integer as timeout_ms,
       ['sink-' || (id % 4)] as partitions, 2::integer as client_version, 'app-' || application as application,
       if(step = 3 and is_aborted, ['timeout', 'fenced', 'client', 'operator', 'unknown'][1 + number // 50 % 5], null) as cause,
       if(step = 3 and is_aborted, number % 5000 = 0, null) as lost
from (select number, number % {applications} as application,
             number // {applications} % {ids} + {day} * {new_ids} as id, number % 50 = 0 as is_aborted,
             if(number % 50 = 0, 'ABORT', 'COMMIT') as ending, {first_ms} + (number - {first}) * {length_ms} // {transactions}
                 as start_ms,
             200 + hash(number) % 2000 + if(number % 100 = 7, hash(number + 1) % 55000, 0)::bigint as open_ms
      from range({first}, {first} + {transactions}) r(number)), range(4) s(step)
order by update_ms"""
_BRANCHES = """
select 'database' as source, 0::integer as partition, number * 2 + step as "offset", 'mysql' as instance,
       'mysql' as resource_manager, 'xa-' || number as transaction_id, if(step = 0, 'listed', 'gone') as what,
       at_ms + step * (300 + number % 700) as at_ms, null::varchar as proof, null::bigint as prepared_ms,
       null::varchar as owner, null::varchar as database, '' as server, 'xa' as application
from (select number, {first_ms} + (number - {first}) * 60000 as at_ms from range({first}, {first} + {transactions}) r(number)),
     range(2) s(step)
order by at_ms"""


def write_archive(directory: Path, records: int, days: int, clusters: int = 1) -> int:
    """Write about so many records of transactions; return how many there are, those of branches among them."""
    archive, written = HistoryArchive.open(str(directory)), 0
    of_a_day = records // RECORDS_OF_EACH // days // clusters
    for number in range(1, clusters + 1):
        manifest = archive.begin(f"cluster-{number}")
        files = []
        for day in range(days):
            files.append(_write(archive, manifest, TRANSACTIONS, day, of_a_day, _TRANSACTIONS))
            files.append(_write(archive, manifest, BRANCHES, day, BRANCHES_A_DAY, _BRANCHES))
        until_ms = (FIRST_DAY + days) * DAY_MS
        archive.publish(replace(manifest.with_files(files, []), until_ms=until_ms))
        written += sum(file.rows for file in files)
    return written


def _write(
    archive: HistoryArchive, manifest: Manifest, table: str, day: int, transactions: int, statement: str
) -> ArchivedFile:
    first_ms = (FIRST_DAY + day) * DAY_MS
    path = file_path(table, manifest.cluster, first_ms, manifest.number + 1)
    local = Path(archive.location.path) / path
    local.parent.mkdir(parents=True)
    rows = statement.format(
        first=day * transactions,
        transactions=transactions,
        applications=APPLICATIONS,
        ids=IDS_OF_EACH,
        new_ids=NEW_IDS_A_DAY,
        day=day,
        first_ms=first_ms,
        length_ms=DAY_MS - 120_000,
    )
    named = ", ".join(f"\"{name}\": '{value}'" for name, value in metadata_of(table, manifest.cluster).items())
    with duckdb.connect(config={"memory_limit": "1GB"}) as database:
        database.execute(
            f"copy ({rows}) to '{local}' "
            f"(format parquet, compression zstd, row_group_size 100000, kv_metadata {{{named}}})"
        )
        time = "update_ms" if table == TRANSACTIONS else "at_ms"
        ((number, least_ms, most_ms),) = database.execute(
            f"select count(*), min({time}), max({time}) from read_parquet('{local}', hive_partitioning = false)"
        ).fetchall()
    return ArchivedFile(
        table=table, path=path, rows=number, bytes=local.stat().st_size, first_ms=least_ms, last_ms=most_ms
    )
