"""Transactional ids by their form alone: which application's they are, and the ids that Flink, Streams and Connect build. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.identity import TransactionalId

UUID_TEXT = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_STREAMS_THREAD = re.compile(rf"(?P<application>.+)-(?P<process>{UUID_TEXT})(?:-(?P<thread>[0-9]{{1,9}}))?", re.DOTALL)
"""``<application.id>-<process id>-<thread index>``: exactly_once_v2; Kafka 2.6 left out the thread."""
_STREAMS_TASK = re.compile(r"(?P<application>.+)-(?P<task>[0-9]{1,9}_[0-9]{1,9})", re.DOTALL)
"""``<application.id>-<subtopology>_<partition>``: the former exactly_once, one producer a task (TaskId.toString)."""
# What tells instances apart wherever it stands: a uuid, a ULID, and what Kubernetes puts behind a deployment's name.
_ULID = r"(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])"
_POD_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_POD = rf"(?<=-)[{_POD_CHARACTERS}]{{6,10}}-[{_POD_CHARACTERS}]{{5}}(?![0-9A-Za-z])"
_INSTANCE = re.compile(rf"[-_.:/]?(?:{UUID_TEXT}|{_ULID}|{_POD})")
# What ids end with, read backwards and without a way back inside a number: a client chooses its id, and its length.
_RANDOM_BACKWARDS = re.compile(r"(?:[0-9]++[-_.:/]++)*(?:(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}+[-_.:/])+")
_NUMBERS_BACKWARDS = re.compile(r"(?:[0-9]++[-_.:/]*+)++")
_LONG_NUMBERS_BACKWARDS = re.compile(r"(?:[0-9]{6,}+[-_.:/]*+)++")
CONNECT_GROUP = "connect-cluster"
"""The workers' group.id in the configuration that Kafka ships; a source task's id is ``<group.id>-<connector>-<task>``."""
_CONNECT_TASK = re.compile(rf"(?P<connector>{CONNECT_GROUP}-.+)-(?P<task>[0-9]{{1,9}})", re.DOTALL)
_FLINK_ID = re.compile(r"(?P<prefix>.+)-(?P<subtask>0|[1-9][0-9]{0,8})-(?P<number>0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkId:
    """A transactional id of the form that KafkaSink builds; others build such ids too."""

    prefix: str
    subtask: int
    number: int

    @classmethod
    def parse(cls, text: str) -> FlinkId | None:
        """Return the parsed id, or None for one of another form. Parsed whole."""
        return _flink_id(text)


@lru_cache(maxsize=16_384)
def _flink_id(text: str) -> FlinkId | None:
    match = _FLINK_ID.fullmatch(text)
    if match is None:
        return None
    return FlinkId(prefix=match["prefix"], subtask=int(match["subtask"]), number=int(match["number"]))


_NO_PROCESS = "00000000-0000-0000-0000-000000000000"


@lru_cache(maxsize=16_384)
def form_of(id_: str) -> str:
    """Return an id of the same application that all of its ids share, as far as their forms allow; counts go by it.

    ``facts.applications`` gives it the name of ``id_``, whatever becomes known of pipelines and of Flink. It keeps what stands
    before ``-<subtask>-<number>``, which may be the prefix of Flink's sink or of a pipeline.
    """
    found = application_by_id(id_)
    form = _form(id_, found)
    same = application_by_id(form)
    return form if (same.kind, same.name) == (found.kind, found.name) else id_


def _form(id_: str, found: Application) -> str:
    if found.instance:
        return f"{found.name}-{_NO_PROCESS}"
    if (parsed := FlinkId.parse(id_)) is not None:
        # A pipeline's ids end in 0 or 1: what ends otherwise is never one's.
        return f"{parsed.prefix}-0-{0 if TransactionalId.parse(id_) is not None else 2}"
    if found.kind is ApplicationKind.STREAMS:
        return f"{found.name}-0_0"
    if found.kind is ApplicationKind.CONNECT:
        return f"{found.name}-0"
    return found.name if FlinkId.parse(found.name) is None else id_


def name_by_id(transaction: str) -> str:
    """Return the name that an id alone gives its application, without what is known of pipelines and Flink; never empty."""
    return application_by_id(transaction).name


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
        found = application_by_id(transaction)
        if found.kind is not ApplicationKind.STREAMS:
            return None
        return cls(application=found.name, process=found.instance, part=found.task)


def is_connect_task(transaction: str) -> bool:
    """Say whether an id has the form of a source task's of Kafka Connect.

    The form alone does not tell: a worker's own producer, which writes no offsets, is ``connect-cluster-<group.id>``, and a group's
    name may end in a number.
    """
    return application_by_id(transaction).kind is ApplicationKind.CONNECT


@lru_cache(maxsize=16_384)
def application_by_id(id_: str) -> Application:
    """Return the application of an id, as far as the id alone tells."""
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
    """Return what is left of an id without uuids, ULIDs, names of pods, random hex digits and trailing numbers; never empty.

    ``<prefix>-<subtask>-<number>`` (Flink's, and ours) keeps short numbers of the prefix itself: they tell pipelines apart.
    """
    text = _without_end(_INSTANCE.sub("", id_), _RANDOM_BACKWARDS)
    parsed = FlinkId.parse(text)
    ends = (parsed.prefix, _LONG_NUMBERS_BACKWARDS) if parsed is not None else (text, _NUMBERS_BACKWARDS)
    stem = _without_end(*ends)
    return stem.rstrip("-_.:/") or text or id_


def _without_end(text: str, backwards: re.Pattern[str]) -> str:
    end = backwards.match(text[::-1])
    return text[: len(text) - end.end()] if end is not None else text
