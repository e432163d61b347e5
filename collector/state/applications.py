"""Which application a transactional id belongs to: the one place where its name is derived. Pure.

Lists, filters, metrics, alerts and orders all go by this name, so that the ids of one application stand together. An id that only
looks like Flink's is not called Flink's: a checkpoint's ``_metadata`` has to name its prefix.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from collector.records.application_ids import FlinkId, application_by_id
from collector.records.flink_facts import FlinkState
from collector.state.attempts import OurId
from lifecycle.application import Application, ApplicationKind


def application_of(transaction: str, our_id: OurId | None, flink: FlinkState, own: Collection[str]) -> Application:
    """Return the application of a Kafka transactional id. ``our_id``: the id parsed where a pipeline of ours has it.

    ``own``: the prefixes of all pipelines that ran; no other application gets the name of one.
    """
    if our_id is not None:
        return Application(kind=ApplicationKind.PIPELINE, name=our_id.prefix, task=str(our_id.slot))
    found = _of_flink(transaction, flink) or application_by_id(transaction)
    if found.name not in own:
        return found
    # A filter or an order that names a pipeline must never reach what is not the pipeline's.
    return replace(found, name=f"{found.name} ({found.kind.value})")


def application_of_branch(transaction: str, our_id: OurId | None) -> Application:
    """Return the application of a database's branch: a foreign one is known by its whole name only."""
    if our_id is not None:
        return Application(kind=ApplicationKind.PIPELINE, name=our_id.prefix, task=str(our_id.slot))
    return Application(kind=ApplicationKind.OTHER, name=transaction)


def _of_flink(transaction: str, flink: FlinkState) -> Application | None:
    parsed = FlinkId.parse(transaction)
    job = flink.job_of_prefix(parsed.prefix) if parsed is not None else None
    if parsed is None or job is None:
        return None
    facts = flink.jobs.get(job[1])
    return Application(
        kind=ApplicationKind.FLINK,
        name=facts.pipeline if facts is not None else "/".join(job),
        instance=parsed.prefix,
        task=str(parsed.subtask),
    )
