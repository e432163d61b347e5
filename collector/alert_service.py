"""Alerts from what is known to who is told: the judge and the deliverer, made from settings, started and stopped together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from collector import undone
from collector.alert_inputs import AlertLimits, Picture
from collector.alert_picture import picture
from collector.alert_store import AlertStore, Outlook
from collector.alerting import Alerting
from collector.alerts import Timing
from collector.clock import now_ms
from collector.current_state import CurrentState
from collector.notifiers.alertmanager import Alertmanager
from collector.notifiers.delivery import Delivering, Patience
from collector.notifiers.receivers import Notifier, ReceiverSettings
from collector.notifiers.slack import Slack
from collector.notifiers.webhook import Webhook
from collector.observers.observer import ObserverStatus
from collector.partition_sights import NOTHING_SEEN, PartitionPicture
from collector.recent_losses import RecentLosses
from collector.settings import TunableSettings
from collector.store import Store


class AlertService:
    """``alerting`` judges and keeps, ``delivering`` tells."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        observers: Callable[[], Sequence[ObserverStatus]],
        tunable: TunableSettings,
        receivers: ReceiverSettings,
        partitions: Callable[[], PartitionPicture] = lambda: NOTHING_SEEN,
    ) -> None:
        self._kept = AlertStore(store)
        limits = limits_of(tunable)
        patience = Patience(
            limit_ms=tunable.notification_limit_ms,
            first_ms=tunable.notification_retry_ms,
            most_ms=tunable.notification_retry_most_ms,
            give_up_ms=tunable.notification_give_up_ms,
        )
        losses = RecentLosses(lambda since_ms: undone.losses_in_memory(current, since_ms=since_ms)[0])

        def look() -> Picture:
            at_ms = now_ms()
            return picture(current, observers(), limits, at_ms, partitions(), losses.at(at_ms))

        self.delivering = Delivering(self._kept, notifiers(receivers, tunable.alert_repeat_ms), patience)
        self.alerting = Alerting(
            self._kept,
            look,
            limits=limits,
            timing=timing_of(tunable),
            receivers=self.delivering.receivers,
            interval_ms=tunable.alert_interval_ms,
            changed=current.changed,
            notified=self.delivering.wake,
        )

    def start(self) -> None:
        """Start both, each in a thread of its own."""
        self.delivering.start()
        self.alerting.start()

    def stop(self) -> None:
        """Stop both; returns when their threads have ended."""
        self.alerting.stop()
        self.delivering.stop()

    def outlooks(self) -> list[Outlook]:
        """Return how each receiver that there is now is served. Raises StoreFailed."""
        known = {outlook.receiver: outlook for outlook in self._kept.outlooks()}
        nothing = {
            name: Outlook(receiver=name, waiting=0, oldest_ms=None, given_up=0, error="") for name in self.receivers
        }
        return [known.get(name, nothing[name]) for name in self.receivers]

    @property
    def receivers(self) -> tuple[str, ...]:
        """Return the names of the receivers."""
        return self.delivering.receivers


def limits_of(tunable: TunableSettings) -> AlertLimits:
    """Return the limits of the rules. An observer that polls is silent for an interval without being down."""
    longest_ms = max(getattr(tunable, f.name) for f in fields(tunable) if f.name.endswith("_polling_ms"))
    return AlertLimits(
        commit_overdue_ms=tunable.alert_commit_overdue_ms,
        foreign_recovery_ms=tunable.alert_foreign_recovery_ms,
        blocked_ms=tunable.alert_blocked_ms,
        aborts=tunable.alert_aborts,
        aborts_window_ms=tunable.alert_aborts_window_ms,
        checkpoint_failures=tunable.alert_checkpoint_failures,
        checkpoint_stalled_ms=tunable.alert_checkpoint_stalled_ms,
        observer_down_ms=max(tunable.alert_observer_down_ms, 2 * longest_ms),
    )


def timing_of(tunable: TunableSettings) -> Timing:
    """Return when alerts are resolved and told."""
    return Timing(
        keep_firing_ms=tunable.alert_keep_firing_ms,
        group_wait_ms=tunable.alert_group_wait_ms,
        group_interval_ms=tunable.alert_group_interval_ms,
        repeat_ms=tunable.alert_repeat_ms,
        resolved_kept_ms=tunable.alert_resolved_kept_ms,
    )


def notifiers(receivers: ReceiverSettings, repeat_ms: int) -> list[Notifier]:
    """Return a notifier per receiver that was given."""
    found: list[Notifier] = []
    if receivers.webhook_url:
        found.append(Webhook(receivers.webhook_url, receivers.webhook_secret))
    if receivers.slack_url:
        found.append(Slack(receivers.slack_url))
    if receivers.alertmanager_url:
        found.append(Alertmanager(receivers.alertmanager_url, receivers.alertmanager_token, repeat_ms))
    return found
