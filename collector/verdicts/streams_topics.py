"""Names of the topics that Kafka Streams keeps for itself: ``<application.id>-<store>-changelog`` and ``…-repartition``. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable

CHANGELOG, REPARTITION = "-changelog", "-repartition"


def is_changelog(topic: str) -> bool:
    """Say whether a topic's name is that of a changelog."""
    return topic.endswith(CHANGELOG)


def changelog_of(topic: str, applications: Container[str], preferred: str = "") -> tuple[str, str] | None:
    """Return application and store of a changelog topic, or None where it is none of a known application.

    ``preferred`` goes first: ``shop`` and ``shop-app`` may both be applications. Else the longest name counts.
    """
    if not is_changelog(topic):
        return None
    named = topic.removesuffix(CHANGELOG)
    if preferred and named.startswith(f"{preferred}-") and named != f"{preferred}-":
        return preferred, named.removeprefix(f"{preferred}-")
    end = named.rfind("-")
    while end > 0:
        if named[:end] in applications and end + 1 < len(named):
            return named[:end], named[end + 1 :]
        end = named.rfind("-", 0, end)
    return None


def is_repartition_of(topic: str, application: str) -> bool:
    """Say whether a topic is one through which an application passes records to itself."""
    return topic.endswith(REPARTITION) and topic.startswith(f"{application}-")


def own_topics(application: str, partitions: Iterable[str]) -> list[str]:
    """Return those of these partitions (``topic-number``) that an application keeps for itself, sorted."""
    own = (name for name in partitions if name.startswith(f"{application}-"))
    return sorted(name for name in own if name.rpartition("-")[0].endswith((CHANGELOG, REPARTITION)))
