"""Alerts: the evaluator and the dispatcher, made from settings, started and stopped together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from indoubt.collector.assess.assessor import Assessor
from indoubt.collector.config.alerts import AlertSettings
from indoubt.collector.config.receivers import Notifier, ReceiverSettings
from indoubt.collector.config.variables import TunableSettings
from indoubt.collector.history.store import Store
from indoubt.collector.notify.evaluator import AlertEvaluator
from indoubt.collector.notify.notifiers.delivery import NotificationDispatcher, RetryPolicy
from indoubt.collector.notify.notifiers.rendering import Alertmanager, Slack, Webhook
from indoubt.collector.notify.store import AlertStore, ReceiverStatus
from indoubt.collector.views.current_state import CurrentState


class AlertService:
    """``evaluator`` judges and keeps, ``dispatcher`` notifies."""

    def __init__(
        self,
        current: CurrentState,
        store: Store,
        assessor: Assessor,
        tunable: TunableSettings,
        receivers: ReceiverSettings,
        public_url: str = "",
        cluster: str = "",
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._kept = AlertStore(store)
        settings = alert_settings(tunable)
        told = notifiers(receivers, settings.repeat_ms)
        self.dispatcher = NotificationDispatcher(self._kept, told, RetryPolicy(), public_url, cluster)
        self.evaluator = AlertEvaluator(
            self._kept,
            assessor.follow,
            settings=settings,
            receivers=self.dispatcher.receivers,
            changed=current.changed,
            notified=self.dispatcher.wake,
            leads=leads,
        )

    def receiver_statuses(self) -> list[ReceiverStatus]:
        """Return how each receiver that there is now is served. Raises StoreFailed."""
        known = {status.receiver: status for status in self._kept.receiver_statuses()}
        return [known.get(name) or ReceiverStatus(receiver=name) for name in self.dispatcher.receivers]


def alert_settings(tunable: TunableSettings) -> AlertSettings:
    """Return the settings of alerts. An observer that polls is silent for an interval without being down."""
    longest_ms = max(getattr(tunable, f.name) for f in fields(tunable) if f.name.endswith("_polling_ms"))
    return replace(tunable.alert, observer_down_ms=max(tunable.alert.observer_down_ms, 2 * longest_ms))


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
