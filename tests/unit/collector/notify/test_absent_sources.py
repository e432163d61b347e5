"""Sources that are not there: which are only not there yet, and which are missed."""

from __future__ import annotations

from indoubt.collector.assess import rules
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.history.store import Store
from indoubt.collector.observe.decision_log import DecisionTopic
from indoubt.collector.observe.lifecycle_topic import LifecycleTopic
from indoubt.collector.observe.source import Observer, ObserverState, ObserverStatus
from indoubt.collector.observe.topic_source import TopicObserver
from indoubt.collector.observe.transaction_state_log import TOPIC, TransactionLog
from indoubt.collector.records.observations import IdExpired, Observed, Position
from indoubt.collector.verdicts.verdict_case import DecisionLogStatus
from indoubt.collector.views.current_state import CurrentState
from indoubt.lifecycle.errors import MissingTopic
from indoubt.resource_managers.kafka.connection import KafkaConnection
from tests.unit.collector.assessments import situation_at
from tests.unit.collector.notify.http_receiver import wait_until

LIMITS = AlertSettings()


class Gone(TopicObserver):
    """An observer whose topic does not exist."""

    def observe(self) -> None:
        raise MissingTopic("topic t does not exist")


class GoneTransactionLog(Gone, TransactionLog):
    """The transaction log before the first transactional id."""


class GoneDecisionLog(Gone, DecisionTopic):
    """The decision log where no pipeline of ours ever ran."""


class GoneEvents(Gone, LifecycleTopic):
    """The lifecycle topic where no pipeline of ours ever ran."""


def started(observer: Observer, state: ObserverState) -> ObserverStatus:
    observer.start()
    wait_until(f"{observer.name} {state.value}", lambda: observer.status.state is state)
    return observer.status


def test_what_was_never_there_is_absent_and_nobody_misses_it(store: Store, current: CurrentState) -> None:
    nowhere = KafkaConnection("127.0.0.1:1")
    observers = [
        GoneTransactionLog(current, store, nowhere),
        GoneDecisionLog(current, store, nowhere, "decisions"),
        GoneEvents(current, store, nowhere, "events"),
    ]
    seen = [started(observer, ObserverState.ABSENT) for observer in observers]
    assert seen[0].error == "not there yet: no transaction was ever made on this cluster"
    assert seen[1].error == seen[2].error == "not there yet: no pipeline of indoubt ever ran on this cluster"
    at_ms = seen[0].since_ms + 3_600_000
    found = situation_at(current, seen, LIMITS, at_ms)
    assert (rules.findings(found), rules.held(found)) == ([], set())
    for observer in observers:
        observer.stop()


def test_what_was_there_and_is_gone_is_missed(store: Store, current: CurrentState) -> None:
    read = Observed(position=Position(source=TOPIC, partition=0, offset=0), observation=IdExpired(transaction="t"))
    current.observe([read])
    wait_until("history written", lambda: store.next_offsets(TOPIC))
    observer = GoneTransactionLog(current, store, KafkaConnection("127.0.0.1:1"))
    seen = started(observer, ObserverState.DOWN)
    observer.stop()
    found = situation_at(current, [seen], LIMITS, seen.since_ms + LIMITS.observer_down_ms)
    (alert,) = rules.findings(found)
    assert (alert.rule, alert.subject, alert.severity.value) == ("A9", "transaction log", "critical")
    assert alert.evidence[0].fact == "topic t does not exist"


def test_events_are_missed_where_the_decision_log_is_there(store: Store, current: CurrentState) -> None:
    current.see_decision_log(DecisionLogStatus.READABLE)
    observer = GoneEvents(current, store, KafkaConnection("127.0.0.1:1"), "events")
    assert started(observer, ObserverState.DOWN).source_is_missing
    current.see_decision_log(DecisionLogStatus.ABSENT)
    wait_until("absent", lambda: observer.status.state is ObserverState.ABSENT)
    observer.stop()
