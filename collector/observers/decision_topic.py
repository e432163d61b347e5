"""Observes the decision log: which runs started, what was decided, how decided transactions ended."""

from __future__ import annotations

from confluent_kafka import Message

from collector.observations import DecisionSeen, Observation
from collector.observers.topic_observer import TopicObserver
from collector.verdicts import LogSight
from lifecycle import decisions
from lifecycle.errors import MissingTopic

NO_PIPELINE = "no pipeline of indoubt ever ran on this cluster"


class DecisionTopic(TopicObserver):
    """The decision log. Says to the current state whether it can be trusted to be whole."""

    name = "decision log"

    def decode(self, message: Message) -> Observation:
        """Return the record. Raises MalformedRecord."""
        return DecisionSeen(offset=message.offset(), record=decisions.decode(message.value()))

    def read_on(self, has_reached_end: bool) -> None:
        """Trust the log once it was read to its end."""
        self.current.see_decision_log(LogSight.READABLE if has_reached_end else LogSight.UNREADABLE)

    @property
    def absence(self) -> str:
        """Say what a missing log means."""
        return "" if self.has_read else NO_PIPELINE

    def made_anew(self) -> None:
        """Forget what the log before this one said: its offsets mean nothing here."""
        self.current.forget_decisions()

    def failed(self, error: Exception) -> None:
        """Withdraw the trust; a log that never existed means that no pipeline of ours ever ran."""
        never_was = isinstance(error, MissingTopic) and not self.has_read
        self.current.see_decision_log(LogSight.ABSENT if never_was else LogSight.UNREADABLE, str(error))
