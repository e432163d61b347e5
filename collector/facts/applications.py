"""Which application a transactional id, or a branch of a database, belongs to: the one place where its name is derived. Pure.

Lists, filters, metrics, alerts and orders all go by this name, so that the ids of one application stand together. An id that only
looks like Flink's is not called Flink's: a checkpoint's ``_metadata`` has to name its prefix, an xid a job that is known.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from indoubt.collector.facts.attempts import OurId
from indoubt.collector.records.application_ids import FlinkId, application_by_id
from indoubt.collector.records.flink_facts import FlinkState
from indoubt.collector.records.formats.flink_records import ListedFile
from indoubt.collector.records.formats.pending_files import COMMITS
from indoubt.collector.records.xids import owner_of
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.resource_manager_kinds import FLINK_SINKS


def application_of(transaction: str, our_id: OurId | None, flink: FlinkState, own: Collection[str]) -> Application:
    """Return the application of a Kafka transactional id. ``our_id``: the id parsed where a pipeline of ours has it.

    ``own``: the prefixes of all pipelines that ran; no other application gets the name of one.
    """
    if our_id is not None:
        return _of_pipeline(our_id)
    return _unlike(own, _of_flink(transaction, flink) or application_by_id(transaction))


def application_of_branch(
    resource_manager: str, transaction: str, our_id: OurId | None, flink: FlinkState, own: Collection[str]
) -> Application:
    """Return the same of a branch in a database, which lists it under this name.

    A job of Flink has the name that it has in Kafka. Other transaction managers go by program and node, what no format tells by its
    whole name.
    """
    if our_id is not None:
        return _of_pipeline(our_id)
    if resource_manager in FLINK_SINKS:
        return _unlike(own, _of_file(transaction, flink))
    owner = owner_of(resource_manager, transaction)
    if owner is None:
        return _unlike(own, Application(kind=ApplicationKind.OTHER, name=transaction))
    job = flink.pipeline_of(owner.flink.job) if owner.flink is not None else None
    if owner.flink is not None and job is not None:
        found = Application(kind=ApplicationKind.FLINK, name=job, task=str(owner.flink.subtask))
    else:
        found = Application(kind=ApplicationKind.OTHER, name=f"{owner.program} {owner.node}".rstrip())
    return _unlike(own, found)


def _of_file(target: str, flink: FlinkState) -> Application:
    """Return the job whose checkpoint lists a file, or a commit to a table, else where its sink writes to."""
    listing = next(iter(flink.lists.listings(ListedFile(target))), None)
    if listing is None:
        is_commit = target.startswith(COMMITS)
        place = target.partition("@")[0] if is_commit else f"FileSink {target.rpartition('/')[0]}"
        return Application(kind=ApplicationKind.OTHER, name=place)
    name = flink.pipeline_of(listing.job) or f"{listing.cluster}/{listing.job}"
    sink = next((each.sink for each in listing.files if each.target == target), "")
    return Application(kind=ApplicationKind.FLINK, name=name, instance=sink)


def _of_pipeline(our_id: OurId) -> Application:
    return Application(kind=ApplicationKind.PIPELINE, name=our_id.prefix, task=str(our_id.slot))


def _unlike(own: Collection[str], found: Application) -> Application:
    """Return a foreign application under a name that no pipeline has."""
    # A filter or an order that names a pipeline must never reach what is not the pipeline's.
    return replace(found, name=f"{found.name} ({found.kind.value})") if found.name in own else found


def _of_flink(transaction: str, flink: FlinkState) -> Application | None:
    parsed = FlinkId.parse(transaction)
    job = flink.lists.job_of_prefix(parsed.prefix) if parsed is not None else None
    if parsed is None or job is None:
        return None
    return Application(
        kind=ApplicationKind.FLINK,
        name=flink.pipeline_of(job[1]) or "/".join(job),
        instance=parsed.prefix,
        task=str(parsed.subtask),
    )
