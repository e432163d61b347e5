"""What is said of what a sink of Flink has prepared, by its kind: one row each, the only place where their words differ."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.collector.verdicts.flink_known import FlinkCase
from indoubt.lifecycle.resource_manager_kinds import FILE_SINK, ICEBERG, PAIMON

_FAILS_IF_DONE = "commits the {} itself, and fails if another program has done so"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkWords:
    """Of one kind. ``follows`` has ``{number}`` and ``{name}`` of the first checkpoint that lists it and did not fail.

    Of what only checkpoints list: ``hidden``: that it is not visible; ``visible``, ``gone``: how it ended.
    """

    listed: str
    """What a list names."""
    follows: str
    """What follows a commit."""
    by_job: str = ""
    """What a job that runs does with what never times out; empty in Kafka, where a second commit changes nothing."""
    if_gone: str = "commit it"
    """What to do if the job is gone."""
    is_restarted: bool = False
    """No order commits it: whatever is said of a condition is said of a restart."""
    left_out: str = ""
    """What follows where its table has its checkpoint, or a later one, without its files."""
    hidden: str = ""
    visible: str = ""
    gone: str = ""


TRANSACTION = SinkWords(
    listed="transactional id, producer id and epoch",
    follows=(
        "what follows a commit: restored from checkpoint {number}, Flink logs that the transaction has 'already been "
        "fenced' and goes on; nothing is lost. Restored from an earlier one, it writes these rows twice. An abort, or the "
        "timeout, loses its rows"
    ),
)
BRANCH = SinkWords(
    listed="xid",
    by_job=_FAILS_IF_DONE.format("branch"),
    follows=(
        "what follows a commit: restored from checkpoint {number}, Flink logs that the transaction is 'unknown to "
        "RM (ignoring)' and goes on; nothing is lost. Restored from an earlier one, it writes these rows twice. A rollback "
        "loses its rows"
    ),
)
BRANCH_OF_MARIADB = SinkWords(
    listed="xid",
    by_job=_FAILS_IF_DONE.format("branch"),
    follows=(
        "MariaDB refuses the commit that Flink sends after a restore from {name}, with this branch or without (XAER_OUTSIDE): "
        "docs/databases.md says what to do. Commit it only if the job then goes on from {name} or from a later one. Restored "
        "from an earlier one, it writes these rows twice. A rollback loses its rows"
    ),
)
_NO_SNAPSHOT = (
    "its files are written, and no snapshot of the table adds them; its age counts from when that was first seen"
)
SINKS = {
    FILE_SINK.name: SinkWords(
        listed="file",
        by_job=_FAILS_IF_DONE.format("file"),
        follows=(
            "what follows a commit: restored from checkpoint {number}, Flink finds the file visible and goes on. Restored from an "
            "earlier one, it writes these rows twice. Its removal loses them"
        ),
        hidden="it is written whole, and not visible under its name; its age counts from when that was first seen",
        visible="it is visible under its name, with as many bytes as were written",
        gone="neither the file nor what would become it is there: removed, or made visible and taken away since",
    ),
    ICEBERG.name: SinkWords(
        listed="commit",
        by_job="adds its files itself, perhaps a second time where another program has",
        follows=(
            "what follows a commit: restored from checkpoint {number}, Flink finds the snapshot of that name and adds nothing. "
            "Restored from an earlier one, it writes these rows twice"
        ),
        left_out=(
            "restored, its sink takes every checkpoint up to that number for added, and leaves these files out "
            "(apache/iceberg#10892, #14090). Restore from an earlier checkpoint under a new job id, or add its files by hand: its "
            "manifest names them"
        ),
        hidden=_NO_SNAPSHOT,
        visible="a snapshot of the table adds it",
        gone="no snapshot of the table adds it, and its manifests are gone, or the table was rolled back behind it",
    ),
    PAIMON.name: SinkWords(
        listed="commit",
        by_job="adds its files itself",
        follows=(
            "no order adds its files: restart the job from {name} or from a later one, and its sink adds them. Restored from an "
            "earlier one, it writes these rows again"
        ),
        if_gone="restart it",
        is_restarted=True,
        left_out=(
            "restored, its sink takes every number up to that one for added, and leaves these files out. Roll the table back to "
            "the snapshot of an earlier checkpoint, and restore the job from that one"
        ),
        hidden=_NO_SNAPSHOT,
        visible="a snapshot of the table adds it",
        gone="no snapshot of the table adds it, and its data files are gone",
    ),
}
"""By the name of what only checkpoints list."""


def words_of(case: FlinkCase) -> SinkWords:
    """Return what is said of what a case is about."""
    if case.sink:
        return SINKS[case.sink]
    if not case.is_branch:
        return TRANSACTION
    return BRANCH_OF_MARIADB if case.may_refuse_flink else BRANCH
