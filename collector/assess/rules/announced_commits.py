"""The rule about commits that a completed checkpoint of Flink announces and that nobody will do: the job is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from indoubt.collector.assess.findings import Finding, Severity, application_group
from indoubt.collector.assess.rule import Rule, Source
from indoubt.collector.assess.situation import Situation
from indoubt.collector.runtime.time_format import seconds
from indoubt.collector.verdicts.flink_announced import CommitsInDoubt
from indoubt.collector.verdicts.flink_evidence import METADATA, REST
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.verdicts import Evidence


def announced_commits(situation: Situation) -> Sequence[CommitsInDoubt]:
    """Return the commits that jobs of Flink which are over have announced and may not have done."""
    return situation.current.flink.commits_in_doubt(situation.limits.commit_overdue_ms)


def a17_commits_left(situation: Situation) -> Iterator[Finding]:
    """A job of Flink is over, and its last checkpoint announces commits of a sink of an unknown kind: nobody will do them."""
    for found in situation.read(announced_commits):
        if not found.is_seen:
            continue
        named = " and ".join(f"{counted(sink.commits, 'commit')} of sink {sink.sink}" for sink in found.sinks)
        after = seconds(max(0, found.job_ended_ms - found.completed_ms))
        yield Finding(
            subject=_subject(found),
            group=application_group(found.pipeline),
            severity=Severity.WARNING,
            summary=(
                f"checkpoint {found.number} of {found.pipeline} completed, {named} that nobody will do if they are not done: the "
                f"job is over ({found.job_state})"
            ),
            evidence=(
                Evidence(
                    f"{found.path}/{METADATA} announces {named}; how its committables are to be read is not known",
                    METADATA,
                    found.completed_ms,
                ),
                Evidence(f"the job was {found.job_state} {after} later", REST, found.job_ended_ms),
                Evidence("no job was restored from one of its checkpoints, which would commit them again", REST),
            ),
            subject_labels={"pipeline": found.pipeline, "batch": str(found.number)},
            object_path=page_paths.batch(found.pipeline, found.number),
        )


def unseen(situation: Situation) -> frozenset[str]:
    """Return the subjects of which it cannot be seen now whether a job was restored."""
    return frozenset(_subject(found) for found in situation.read(announced_commits) if not found.is_seen)


def _subject(found: CommitsInDoubt) -> str:
    return f"{found.job}|{found.number}"


A17 = Rule(
    number="A17",
    name="commits left",
    find=a17_commits_left,
    consequence="What its sink has prepared may stay invisible.",
    sources=(Source.OBSERVERS,),
    for_ms=60_000,
    unseen=unseen,
)
