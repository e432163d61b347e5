"""What a checkpoint of Flink announces, in words: how many commits of which sink."""

from __future__ import annotations

from collections.abc import Iterable

from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.rows.pipelines import SinkCommitsRow

UNKNOWN = "unknown"


def announced(sinks: Iterable[SinkCommitsRow]) -> str:
    """Return ``orders_files: 12 commits (2 hidden); ledger: 6 commits of an unknown kind``, a dash where nothing is known."""
    return "; ".join(_of_one(sink) for sink in sinks) or "–"


def _of_one(sink: SinkCommitsRow) -> str:
    kind = " of an unknown kind" if sink.kind == UNKNOWN else ""
    stands = [f"{number} {word}" for word, number in (("hidden", sink.hidden), ("missing", sink.missing)) if number]
    files = f" ({', '.join(stands)})" if stands else ""
    return f"{sink.sink}: {counted(sink.commits, 'commit')}{kind}{files}"
