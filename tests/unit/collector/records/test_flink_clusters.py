"""In which clusters a Flink job id was seen: two jobs of one id, or one job whose checkpoints several read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from indoubt.collector.records.flink_clusters import JobClusters

JOB, OTHER = "a" * 32, "b" * 32
Seen = tuple[str, str, bool]
MANY = [f"{name}-{number}" for name in ("eu", "us") for number in range(4)]


def told(cluster: str, directory: str = "") -> Seen:
    """Return that REST told of the job, and of a checkpoint in a directory."""
    return cluster, directory, True


def read(cluster: str, directory: str = "") -> Seen:
    """Return that a checkpoint of the job was read in a directory, or where the path tells no job."""
    return cluster, directory, False


def clusters(*seen: Seen, job: str = JOB) -> JobClusters:
    found = JobClusters()
    for number, (cluster, directory, by_rest) in enumerate(seen):
        path = f"{directory}/{job}/chk-{number}" if directory else ""
        found.see(cluster, job, path, by_rest=by_rest)
    return found


@pytest.mark.parametrize(
    ("seen", "several"),
    [
        ([], []),
        ([told("eu")], []),
        ([told("eu", "s3://eu"), told("eu", "s3://else")], []),
        # REST told of it in two clusters: those are two jobs, wherever their checkpoints lie.
        ([told("us"), told("eu")], ["eu", "us"]),
        ([told("eu", "s3://c"), told("us", "s3://c")], ["eu", "us"]),
        ([told("eu"), told("us"), read("ap", "s3://c")], ["ap", "eu", "us"]),
        ([told(cluster) for cluster in MANY], MANY),
        # What another cluster's reader finds where the job's own checkpoints lie is the job's.
        ([told("eu", "s3://c"), read("us", "s3://c")], []),
        ([told("eu", "s3://c"), told("eu", "s3://d"), read("us", "s3a://c")], []),
        ([told("eu", "s3://c"), read("us", "s3://d")], ["eu", "us"]),
        ([told("eu", "s3://c"), read("us", "s3://c"), read("us", "s3://d")], ["eu", "us"]),
        ([told("us", "s3://c"), read("eu", "s3://c"), read("eu", "s3://d")], ["eu", "us"]),
        # REST did not say where they lie: then the ones that were read are not known to be its own.
        ([told("eu"), read("us", "s3://c")], ["eu", "us"]),
        ([told("us"), read("eu", "s3://c")], ["eu", "us"]),
        # What was read at a path that tells no job says of no cluster that it has this one.
        ([told("eu", "s3://c"), read("us")], []),
        ([told("eu"), read("us")], []),
        # REST told of none: the one that has the most directories is the job's.
        ([read("eu", "s3://c"), read("us", "s3://c")], []),
        ([read("eu", "s3://c"), read("us", "s3://d")], ["eu", "us"]),
        ([read("eu", "s3://c"), read("eu", "s3://d"), read("us", "s3://c")], []),
        ([read("us", "s3://c"), read("us", "s3://d"), read("eu", "s3://c")], []),
        ([read(cluster, f"s3://{cluster}") for cluster in MANY], MANY),
    ],
)  # fmt: skip
def test_an_id_is_of_several_jobs_where_two_clusters_have_their_own(seen: list[Seen], several: list[str]) -> None:
    orders: list[Sequence[Seen]] = [*permutations(seen)] if len(seen) < 4 else [seen, seen[::-1]]
    for order in orders:
        found = clusters(*order)
        assert found.several(JOB) == found.copy().several(JOB) == several
        assert found.several(OTHER) == []


@pytest.mark.parametrize("names", ["bcdefgh", "jklmnop", "rstuvwx"])
def test_of_clusters_that_read_one_directory_the_last_by_name_is_named(names: str) -> None:
    seen = [read(name, "s3://shared") for name in names]
    assert clusters(*seen, read("a", "s3://own")).several(JOB) == ["a", names[-1]]


@pytest.mark.parametrize("seen", [[told("eu"), told("us")], [read("eu", "s3://c"), read("us", "s3://d")]])
def test_a_job_that_is_forgotten_is_known_in_no_cluster(seen: list[Seen]) -> None:
    found = clusters(*seen)
    found.keep({JOB, OTHER})
    assert found.several(JOB) == ["eu", "us"]
    found.keep({OTHER})
    assert found.several(JOB) == []


def test_a_copy_does_not_learn_what_is_seen_since() -> None:
    found = clusters(told("eu", "s3://c"), read("us", "s3://c"))
    copy = found.copy()
    found.see("us", JOB, f"s3://d/{JOB}/chk-1", by_rest=True)
    assert (found.several(JOB), copy.several(JOB)) == (["eu", "us"], [])
