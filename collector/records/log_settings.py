"""Whether the decision log forgets by itself: what its topic's configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indoubt.resource_managers.topics.decision_log_topic import FORGETS_NOTHING, wrong_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The settings by which the topic would forget, as of ``at_ms``; none where it forgets nothing."""

    topic: str
    wrong: tuple[tuple[str, str], ...]
    at_ms: int

    @classmethod
    def of(cls, topic: str, settings: Mapping[str, str], at_ms: int) -> LogSettings:
        """Return what is wrong with a topic's configuration."""
        return cls(topic=topic, wrong=tuple(sorted(wrong_settings(settings).items())), at_ms=at_ms)

    @property
    def said(self) -> str:
        """Return what is wrong, as ``name=value``; empty where nothing is."""
        return ", ".join(f"{name}={value}" for name, value in self.wrong)

    @property
    def remedy(self) -> str:
        """Return the command that mends it."""
        wanted = ",".join(f"{name}={FORGETS_NOTHING[name]}" for name, _ in self.wrong)
        return f"kafka-configs.sh --alter --entity-type topics --entity-name {self.topic} --add-config {wanted}"
