"""The outbox on its way: to a real HTTP server that refuses, hangs, fails and comes back, over restarts of the collector."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.config.receivers import Notifier
from indoubt.collector.history.store import Store
from indoubt.collector.notify.notifiers.delivery import NotificationDispatcher, Outcome, RetryPolicy
from indoubt.collector.notify.notifiers.rendering import Slack, Webhook
from indoubt.collector.notify.state_machine import AlertStates, step
from indoubt.collector.notify.store import AlertStore, ReceiverStatus
from indoubt.collector.runtime.clock import now_ms
from tests.unit.collector.notify.http_receiver import Receiver, receiving, wait_until
from tests.unit.collector.notify.test_state_machine import finding

pytestmark = pytest.mark.slow


SECRET = "a-secret-of-sixteen-and-more"
PATIENCE = RetryPolicy(limit_ms=5_000, first_ms=20, max_ms=80)
HASTE = RetryPolicy(limit_ms=400, first_ms=20, max_ms=80)
"""For a receiver that does not answer: on a busy machine one that does may take longer."""
TIMING = AlertSettings(group_wait_ms=0, group_interval_ms=0)


class Outbox:
    """The outbox in a store of its own, filled by the state machine."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "history.duckdb"
        self.store = Store(self.path)
        self.kept = AlertStore(self.store)
        self.states = AlertStates()
        self.running: NotificationDispatcher | None = None

    def restart(self) -> None:
        """Close history and open it again."""
        self.store.close()
        self.store = Store(self.path)
        self.kept = AlertStore(self.store)

    def tell(self, subject: str, *receivers: str, at_ms: int | None = None) -> str:
        """Put one notification into the outbox; return its idempotency key."""
        made = step(self.states, [finding(subject, group=subject)], (), at_ms or now_ms(), TIMING, frozenset({"A1"}))
        self.states = made.states
        self.kept.keep(made, receivers)
        if self.running is not None:
            self.running.wake()
        (notification,) = made.notifications
        return notification.id

    def status(self, receiver: str) -> ReceiverStatus:
        """Return how a receiver is served."""
        return next(one for one in self.kept.receiver_statuses() if one.receiver == receiver)

    @contextmanager
    def delivering(self, *notifiers: Notifier, policy: RetryPolicy = PATIENCE) -> Iterator[NotificationDispatcher]:
        """Deliver until the end of the block."""
        running = NotificationDispatcher(self.kept, notifiers, policy)
        running.start()
        self.running = running
        try:
            yield running
        finally:
            self.running = None
            running.stop()


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(tmp_path)
    yield made
    made.store.close()


def keys(receiver: Receiver) -> list[str]:
    """Return the idempotency keys of what came, in order, every attempt."""
    return [one.headers["Idempotency-Key"] for one in receiver.received]


def webhook(receiver: Receiver) -> Webhook:
    return Webhook(receiver.url, SECRET)


def test_everything_is_delivered_once_and_in_order(outbox: Outbox) -> None:
    with receiving() as receiver, outbox.delivering(webhook(receiver)) as running:
        sent = []
        for n in range(5):
            sent.append(outbox.tell(f"t-{n}", "webhook"))
        wait_until("all five are delivered", lambda: outbox.status("webhook").waiting == 0)
        assert keys(receiver) == sent
        assert [json.loads(one.body)["number"] for one in receiver.received] == [1, 2, 3, 4, 5]
        assert running.attempts == {("webhook", Outcome.DELIVERED): 5}


def test_a_receiver_that_answers_500_gets_it_again_with_the_same_key(outbox: Outbox) -> None:
    with receiving() as receiver, outbox.delivering(webhook(receiver)):
        receiver.status = 500
        sent = outbox.tell("t-1", "webhook")
        wait_until("it was tried again and again", lambda: len(receiver.received) >= 4)
        assert outbox.status("webhook").error == "answered 500"
        receiver.status = 204
        wait_until("it is delivered", lambda: outbox.status("webhook").waiting == 0)
        assert set(keys(receiver)) == {sent}


def test_a_receiver_that_was_down_gets_everything_later(outbox: Outbox) -> None:
    with receiving() as receiver:
        port = receiver.port
    sent = [outbox.tell(f"t-{n}", "webhook") for n in range(3)]
    with outbox.delivering(webhook(receiver)) as running:
        failed = ("webhook", Outcome.FAILED)
        wait_until("it was tried again and again", lambda: running.attempts.get(failed, 0) >= 3)
        assert outbox.status("webhook").error.startswith("not reached: ConnectError")
        assert outbox.status("webhook").waiting == 3
        with receiving(port) as back:
            wait_until("all is delivered", lambda: outbox.status("webhook").waiting == 0)
            assert keys(back) == sent


@pytest.mark.parametrize("trickles", [False, True])
def test_one_that_hangs_or_answers_drop_by_drop_keeps_no_other_waiting(outbox: Outbox, trickles: bool) -> None:
    with receiving() as slow, receiving() as quick:
        slow.trickles = trickles
        if not trickles:
            slow.hang()
        with outbox.delivering(webhook(slow), Slack(quick.url), policy=HASTE) as running:
            for n in range(3):
                outbox.tell(f"t-{n}", "webhook", "slack")
            wait_until("the quick one has all", lambda: outbox.status("slack").waiting == 0)
            wait_until("the slow one failed", lambda: running.attempts.get(("webhook", Outcome.FAILED), 0) >= 2)
            assert outbox.status("webhook").error == "no answer within 0.4 s"
            assert outbox.status("webhook").waiting == 3
            slow.trickles = False
            slow.release()
            wait_until("the slow one has all", lambda: outbox.status("webhook").waiting == 0)
        # On a machine that stands still for 0.4 s one comes a second time.
        assert len({received.body for received in quick.received}) == 3


def test_nothing_is_lost_or_reported_again_over_a_restart(outbox: Outbox) -> None:
    with receiving() as receiver:
        with outbox.delivering(webhook(receiver)):
            first = outbox.tell("t-1", "webhook")
            wait_until("it is delivered", lambda: outbox.status("webhook").waiting == 0)
        receiver.status = 503
        with outbox.delivering(webhook(receiver)):
            second = outbox.tell("t-2", "webhook")
            wait_until("it was tried", lambda: second in keys(receiver))
        outbox.restart()
        assert outbox.kept.load() == outbox.states
        receiver.status = 200
        receiver.received.clear()
        with outbox.delivering(webhook(receiver)):
            wait_until("it is delivered", lambda: outbox.status("webhook").waiting == 0)
        assert keys(receiver) == [second]
        assert first != second


def test_what_was_under_way_at_a_kill_comes_again_with_the_same_key(outbox: Outbox) -> None:
    with receiving() as receiver:
        receiver.hang()
        policy = RetryPolicy(limit_ms=10_000)
        running = NotificationDispatcher(outbox.kept, [webhook(receiver)], policy)
        sent = outbox.tell("t-1", "webhook")
        running.start()
        wait_until("it is under way", lambda: receiver.received)
        # Another process takes the outbox over: this one got no answer and noted nothing.
        with receiving() as other:
            with outbox.delivering(webhook(other)):
                wait_until("it is delivered", lambda: outbox.status("webhook").waiting == 0)
            assert keys(other) == keys(receiver) == [sent]
        receiver.release()
        running.stop()


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_will_never_be_taken_is_given_up_and_the_next_goes_on(outbox: Outbox, status: int) -> None:
    with receiving() as receiver, outbox.delivering(webhook(receiver)):
        receiver.status = status
        refused = outbox.tell("t-1", "webhook")
        wait_until("it is given up", lambda: outbox.status("webhook").given_up == 1)
        receiver.status = 200
        taken = outbox.tell("t-2", "webhook")
        wait_until("the next is delivered", lambda: keys(receiver) == [refused, taken])


@pytest.mark.parametrize("status", [307, 401, 403, 404, 408, 429, 500])
def test_what_may_pass_is_tried_again(outbox: Outbox, status: int) -> None:
    with receiving() as receiver, outbox.delivering(webhook(receiver)):
        receiver.status = status
        receiver.headers = {"Location": "/elsewhere", "Retry-After": "0"}
        outbox.tell("t-1", "webhook")
        wait_until("it was tried again", lambda: len(receiver.received) >= 2)
        assert {one.path for one in receiver.received} == {"/services/secret-in-the-path"}


def test_after_a_day_in_vain_it_is_given_up(outbox: Outbox) -> None:
    with receiving() as receiver, outbox.delivering(webhook(receiver)):
        receiver.status = 500
        outbox.tell("t-1", "webhook", at_ms=now_ms() - PATIENCE.give_up_ms)
        wait_until("it is given up", lambda: outbox.status("webhook").given_up == 1)


def test_what_is_old_is_forgotten_and_numbers_go_on(outbox: Outbox) -> None:
    for n in range(3):
        outbox.tell(f"t-{n}", "webhook", at_ms=now_ms() - 10_000 + n)
    outbox.kept.forget(now_ms())
    assert outbox.kept.receiver_statuses() == []
    assert outbox.kept.load().number == 3


def test_no_address_and_no_secret_is_in_the_log(outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with receiving() as receiver:
        notifiers: Sequence[Notifier] = (webhook(receiver), Slack(receiver.url))
        receiver.status = 500
        with outbox.delivering(*notifiers):
            outbox.tell("t-1", "webhook", "slack")
            wait_until(
                "both failed", lambda: len({one.receiver for one in outbox.kept.receiver_statuses() if one.error}) == 2
            )
            receiver.status = 200
            wait_until("both are delivered", lambda: all(one.waiting == 0 for one in outbox.kept.receiver_statuses()))
    assert "answered 500" in caplog.text
    for secret in ("secret-in-the-path", SECRET):
        assert secret not in caplog.text
        assert all(secret not in one.error for one in outbox.kept.receiver_statuses())
        assert secret.encode() not in outbox.path.read_bytes()


@pytest.mark.parametrize(
    ("attempts", "share", "pause_ms"),
    [(0, 0.0, 1_000), (0, 1.0, 500), (1, 0.0, 2_000), (5, 0.0, 32_000), (6, 0.0, 60_000), (10_000, 1.0, 30_000)],
)
def test_the_pause_doubles_up_to_a_limit_with_jitter(attempts: int, share: float, pause_ms: int) -> None:
    assert RetryPolicy().pause_ms(attempts, share) == pause_ms
