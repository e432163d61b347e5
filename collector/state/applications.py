"""Which application a transactional id belongs to: the one place where its name is derived. Pure.

Lists, filters, metrics, alerts and orders all go by this name, so that the ids of one application stand together. An id that only
looks like Flink's is not called Flink's: a checkpoint's ``_metadata`` has to name its prefix.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

from collector.records.flink_facts import FlinkState
from collector.state.attempts import OurId
from collector.state.flink_sinks import FlinkId
from lifecycle.application import Application, ApplicationKind

UUID_TEXT = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_STREAMS_THREAD = re.compile(rf"(?P<application>.+)-(?P<process>{UUID_TEXT})(?:-(?P<thread>[0-9]{{1,9}}))?", re.DOTALL)
"""``<application.id>-<process id>-<thread index>``: exactly_once_v2; Kafka 2.6 left out the thread."""
_STREAMS_TASK = re.compile(r"(?P<application>.+)-(?P<task>[0-9]{1,9}_[0-9]{1,9})", re.DOTALL)
"""``<application.id>-<subtopology>_<partition>``: the former exactly_once, one producer a task (TaskId.toString)."""
_UUID = re.compile(rf"[-_.:/]?{UUID_TEXT}")
_RANDOM = re.compile(r"(?:[-_.:/](?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,})+(?:[-_.:/]+[0-9]+)*$")
_NUMBERS = re.compile(r"(?:[-_.:/]*[0-9]+)+$", re.ASCII)
_LONG_NUMBERS = re.compile(r"(?:[-_.:/]*[0-9]{6,})+$", re.ASCII)
CONNECT_GROUP = "connect-cluster"
"""The workers' group.id in the configuration that Kafka ships; a source task's id is ``<group.id>-<connector>-<task>``."""
_CONNECT_TASK = re.compile(rf"(?P<connector>{CONNECT_GROUP}-.+)-(?P<task>[0-9]{{1,9}})", re.DOTALL)


def application_of(transaction: str, our_id: OurId | None, flink: FlinkState, own: Collection[str]) -> Application:
    """Return the application of a Kafka transactional id. ``our_id``: the id parsed where a pipeline of ours has it.

    ``own``: the prefixes of all pipelines that ran; no other application gets the name of one.
    """
    if our_id is not None:
        return Application(kind=ApplicationKind.PIPELINE, name=our_id.prefix, task=str(our_id.slot))
    found = _of_flink(transaction, flink) or _by_id_alone(transaction)
    if found.name not in own:
        return found
    # A filter or an order that names a pipeline must never reach what is not the pipeline's.
    return replace(found, name=f"{found.name} ({found.kind.value})")


def application_of_branch(transaction: str, our_id: OurId | None) -> Application:
    """Return the application of a database's branch: a foreign one is known by its whole name only."""
    if our_id is not None:
        return Application(kind=ApplicationKind.PIPELINE, name=our_id.prefix, task=str(our_id.slot))
    return Application(kind=ApplicationKind.OTHER, name=transaction)


def name_by_id(transaction: str) -> str:
    """Return the name that an id alone gives its application, without what is known of pipelines and Flink; never empty."""
    return _by_id_alone(transaction).name


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsId:
    """A transactional id of the form that Kafka Streams builds, parsed; ``process`` is empty with one producer a task."""

    application: str
    process: str
    part: str

    @property
    def words(self) -> str:
        """Return which part of the application it is."""
        if not self.process:
            return f"task {self.part}"
        return f"process {self.process}" + (f", thread {self.part}" if self.part else "")

    @classmethod
    def parse(cls, transaction: str) -> StreamsId | None:
        """Return the parsed id, or None for one of another form. Its application is its consumer group, too."""
        found = _by_id_alone(transaction)
        if found.kind is not ApplicationKind.STREAMS:
            return None
        return cls(application=found.name, process=found.instance, part=found.task)


def is_connect_task(transaction: str) -> bool:
    """Say whether an id is a source task's of Kafka Connect, by its form: the workers' own producer writes no offsets."""
    return _by_id_alone(transaction).kind is ApplicationKind.CONNECT


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


@lru_cache(maxsize=16_384)
def _by_id_alone(id_: str) -> Application:
    if thread := _STREAMS_THREAD.fullmatch(id_):
        return Application(
            kind=ApplicationKind.STREAMS,
            name=thread["application"],
            instance=thread["process"],
            task=thread["thread"] or "",
        )
    if task := _STREAMS_TASK.fullmatch(id_):
        return Application(kind=ApplicationKind.STREAMS, name=task["application"], task=task["task"])
    if connect := _CONNECT_TASK.fullmatch(id_):
        return Application(kind=ApplicationKind.CONNECT, name=connect["connector"], task=connect["task"])
    return Application(kind=ApplicationKind.OTHER, name=_stem(id_))


def _stem(id_: str) -> str:
    """Return what is left of an id without uuids, random hex digits and trailing numbers; never empty.

    ``<prefix>-<subtask>-<number>`` (Flink's, and ours) keeps short numbers of the prefix itself: they tell pipelines apart.
    """
    text = _RANDOM.sub("", _UUID.sub("", id_))
    parsed = FlinkId.parse(text)
    stem = _LONG_NUMBERS.sub("", parsed.prefix) if parsed is not None else _NUMBERS.sub("", text)
    return stem.rstrip("-_.:/") or text or id_
