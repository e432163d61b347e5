"""Observes the lifecycle topic: what pipelines tell of their transactions, checkpoints and themselves."""

from __future__ import annotations

from confluent_kafka import Message

from collector.observations import EventSeen, Observation
from collector.observers.topic_observer import TopicObserver
from lifecycle import events


class LifecycleTopic(TopicObserver):
    """Lifecycle events, told and never obeyed."""

    name = "lifecycle events"

    def decode(self, message: Message) -> Observation:
        """Return the event. Raises MalformedRecord."""
        return EventSeen(event=events.decode(message.value()))
