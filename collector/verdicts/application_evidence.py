"""Which part of which application wrote a transaction, as evidence: the one place that words it. Pure."""

from __future__ import annotations

from indoubt.collector.records.facts import KAFKA
from indoubt.lifecycle.application import Application, ApplicationKind
from indoubt.lifecycle.verdicts import Evidence

_NAMES = {
    ApplicationKind.PIPELINE: "pipeline",
    ApplicationKind.FLINK: "Flink job",
    ApplicationKind.STREAMS: "Kafka Streams application",
    ApplicationKind.CONNECT: "Kafka Connect connector",
}


def part_of_application(application: Application, resource_manager: str = KAFKA) -> tuple[Evidence, ...]:
    """Return the application and the part of it that an id names; nothing where the id names no part."""
    words = _words(application)
    if not words or application.kind not in _NAMES:
        return ()
    fact = f"by its id: {_NAMES[application.kind]} {application.name}, {words}"
    return (Evidence(fact=fact, source="transactional id" if resource_manager == KAFKA else "branch name"),)


def _words(application: Application) -> str:
    instance, task = application.instance, application.task
    match application.kind:
        case ApplicationKind.PIPELINE:
            parts = [task and f"slot {task}"]
        case ApplicationKind.FLINK:
            parts = [instance and f"sink {instance}", task and f"subtask {task}"]
        case ApplicationKind.STREAMS:
            # One producer a task, or one a thread of a process: then the id names the process.
            parts = [instance and f"process {instance}", task and f"{'thread' if instance else 'task'} {task}"]
        case _:
            parts = [task and f"task {task}"]
    return ", ".join(filter(None, parts))
