"""The results of the job history_rollup, as DuckDB reads them in the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indoubt.collector.history.database_file import StoreFailed
from indoubt.collector.history.store import Store
from indoubt.resource_managers.history_archive import ArchiveFailed

# Bound: the first and the last time, of beginnings of days.
_RESULTS = "select application, day_ms, made_at_ms, {columns} from {files} where day_ms >= ? and day_ms < ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayResult:
    """One application on one day (its begin, epoch ms); ``values`` by column. ``made_at_ms``: when the job computed it."""

    application: str
    day_ms: int
    made_at_ms: int
    values: Mapping[str, int | None]


def day_results(store: Store, columns: Sequence[str], from_ms: int, until_ms: int) -> list[DayResult]:
    """Return these columns of the results for the collector's cluster, of the days in a time (epoch ms). Raises StoreFailed."""
    with store.reading() as cursor:
        try:
            files = store.past.results(cursor, from_ms, until_ms)
        except ArchiveFailed as error:
            raise StoreFailed(f"trends cannot be read: {error}") from None
        if not files:
            return []
        statement = _RESULTS.format(columns=", ".join(columns), files=files)
        found = cursor.execute(statement, [from_ms, until_ms]).fetchall()
    return [
        DayResult(
            application=application,
            day_ms=day_ms,
            made_at_ms=made_at_ms,
            values=dict(zip(columns, values, strict=True)),
        )
        for application, day_ms, made_at_ms, *values in found
    ]
