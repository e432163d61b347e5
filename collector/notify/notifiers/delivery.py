"""Delivers the outbox: at least once, in order, each receiver by itself; one that hangs keeps no other waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from indoubt.collector.config.receivers import Notifier
from indoubt.collector.history.store import StoreFailed
from indoubt.collector.notify.store import AlertStore, Delivery
from indoubt.collector.runtime.clock import now_ms
from indoubt.lifecycle import page_paths
from indoubt.lifecycle.backoff import Backoff
from indoubt.lifecycle.durations import duration

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
FORGET_AFTER_MS = 7 * 86_400_000
FORGET_EVERY_S = 3_600.0
CHECK_EVERY_S = 5.0
"""How often the outbox is read without a wake-up."""
STORE_RETRY_S = 1.0
NEVER_TAKEN = frozenset({400, 405, 413, 414, 415, 422})
"""Answers that say that this body will never be taken; every other failure may pass, a wrong address or token too."""


class Outcome(Enum):
    """How an attempt ended; the value is what the outbox keeps."""

    DELIVERED = "delivered"
    FAILED = "waiting"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How one attempt ended, why, and how long its receiver asked to be left alone."""

    outcome: Outcome
    error: str = ""
    wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """``limit_ms``: for one attempt, all of it; ``first_ms``, ``max_ms``: pause before the next; ``give_up_ms``: of all."""

    limit_ms: int = 5_000
    first_ms: int = 1_000
    max_ms: int = 60_000
    give_up_ms: int = 86_400_000

    def pause_ms(self, attempts: int, share: float) -> int:
        """Return the pause after this many attempts: doubled each time, less a random ``share`` (0 to 1) of half of it."""
        backoff = Backoff(first_s=self.first_ms / 1000, max_s=self.max_ms / 1000)
        return round(1000 * backoff.pause_s(attempts, share))

    def wait_s(self, next_ms: int, at_ms: int) -> float:
        """Return how long to wait for the next attempt; a time beyond the longest pause is of a clock that was ahead."""
        left_ms = next_ms - at_ms
        return 0.0 if left_ms > self.max_ms else left_ms / 1000


class NotificationDispatcher:
    """A thread with an event loop of its own; the limit on an attempt covers all of it, a trickling answer too."""

    def __init__(
        self,
        kept: AlertStore,
        notifiers: Sequence[Notifier],
        policy: RetryPolicy,
        public_url: str = "",
        cluster: str = "",
    ) -> None:
        # At INFO httpx logs every address, and Slack's is a secret.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._kept, self._notifiers, self._policy = kept, tuple(notifiers), policy
        self._public_url, self._cluster = public_url, cluster
        self._random = random.Random()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renew()
        self._attempts: Counter[tuple[str, Outcome]] = Counter()

    @property
    def receivers(self) -> tuple[str, ...]:
        """Return the names of the receivers."""
        return tuple(notifier.name for notifier in self._notifiers)

    @property
    def attempts(self) -> Mapping[tuple[str, Outcome], int]:
        """Return how many attempts of this process ended how, by receiver."""
        return dict(self._attempts)

    def _renew(self) -> None:
        self._news = {notifier.name: asyncio.Event() for notifier in self._notifiers}
        self._ending = asyncio.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifications", daemon=True)

    def start(self) -> None:
        """Start delivering, what was left over first."""
        if self._stopping.is_set():
            self._renew()
        self._thread.start()

    def stop(self) -> None:
        """Stop; returns when the attempts under way have ended, at most their limit later."""
        self._stopping.set()
        self._set(self._ending, *self._news.values())
        if self._thread.is_alive():
            self._thread.join(self._policy.limit_ms / 1000 + STORE_RETRY_S + 20.0)

    def wake(self) -> None:
        """Say that there is something to deliver; called from any thread."""
        self._set(*self._news.values())

    def _set(self, *events: asyncio.Event) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                for event in events:
                    loop.call_soon_threadsafe(event.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve_all())
        except Exception:
            log.exception("notifications are not delivered any more")

    async def _serve_all(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._notifiers:
            await self._forget()
            return
        import httpx  # only with a receiver: it takes 6 MiB

        # Redirects are not followed: they would carry what is signed, or a token, to an address that was not configured.
        async with httpx.AsyncClient(follow_redirects=False, timeout=self._policy.limit_ms / 1000) as client:
            await asyncio.gather(self._forget(), *(self._serve(notifier, client) for notifier in self._notifiers))

    async def _serve(self, notifier: Notifier, client: httpx.AsyncClient) -> None:
        while not self._stopping.is_set():
            self._news[notifier.name].clear()
            try:
                delivery = await asyncio.to_thread(self._kept.next_delivery, notifier.name)
            except Exception as error:  # a receiver fails alone, whatever the reason
                log.error("%s: nothing can be delivered: %s", notifier.name, error)
                await asyncio.sleep(STORE_RETRY_S)
                continue
            wait_s = CHECK_EVERY_S if delivery is None else self._policy.wait_s(delivery.next_ms, now_ms())
            if delivery is None or wait_s > 0:
                await self._wait(notifier, min(wait_s, CHECK_EVERY_S))
                continue
            attempt = await self._attempt(notifier, client, delivery)
            self._attempts[notifier.name, attempt.outcome] += 1
            await self._note(notifier, delivery, attempt)

    async def _wait(self, notifier: Notifier, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news[notifier.name].wait(), limit_s)

    async def _attempt(self, notifier: Notifier, client: httpx.AsyncClient, delivery: Delivery) -> Attempt:
        limit_s = self._policy.limit_ms / 1000
        try:
            self._kept.store.require_lead()
            post = notifier.post(linked(delivery.body, self._public_url, self._cluster), now_ms())
            async with asyncio.timeout(limit_s):
                request = client.stream("POST", post.url, headers=dict(post.headers), content=post.content)
                # Only the status counts; what else it says is not read.
                async with request as answer:
                    status, retry_after = answer.status_code, answer.headers.get("Retry-After", "")
        except TimeoutError:
            return Attempt(outcome=Outcome.FAILED, error=f"no answer within {limit_s:g} s")
        except Exception as error:  # its text may hold the address: the kind of error has to do
            return Attempt(outcome=Outcome.FAILED, error=f"not reached: {type(error).__name__}")
        if 200 <= status < 300:
            return Attempt(outcome=Outcome.DELIVERED)
        if status in NEVER_TAKEN:
            return Attempt(outcome=Outcome.GIVEN_UP, error=f"answered {status}: it does not take this notification")
        wait_ms = int(retry_after) * 1000 if retry_after.isascii() and retry_after.isdigit() else 0
        return Attempt(outcome=Outcome.FAILED, error=f"answered {status}", wait_ms=min(wait_ms, self._policy.max_ms))

    async def _note(self, notifier: Notifier, delivery: Delivery, attempt: Attempt) -> None:
        """Write down how an attempt ended, again and again: what was delivered and not noted would be delivered twice."""
        at_ms = now_ms()
        outcome = attempt.outcome
        too_old = at_ms - int(delivery.body["at_ms"]) >= self._policy.give_up_ms
        if outcome is Outcome.FAILED and too_old:
            outcome = Outcome.GIVEN_UP
        pause_ms = max(attempt.wait_ms, self._policy.pause_ms(delivery.attempts, self._random.random()))
        if outcome is not Outcome.DELIVERED:
            then = "given up" if outcome is Outcome.GIVEN_UP else f"tried again in {duration(pause_ms)}"
            log.warning("%s: notification %d: %s; %s", notifier.name, delivery.number, attempt.error, then)
        values = (delivery, notifier.name, outcome.value, at_ms + pause_ms, attempt.error)
        while True:
            try:
                return await asyncio.to_thread(self._kept.note_delivery, *values)
            except StoreFailed as error:
                log.error("%s: %s", notifier.name, error)
                if self._stopping.is_set():
                    return None
                await asyncio.sleep(STORE_RETRY_S)

    async def _forget(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(StoreFailed):  # it is tried again
                await asyncio.to_thread(self._kept.forget, now_ms() - FORGET_AFTER_MS)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), FORGET_EVERY_S)


def linked(notification: Mapping[str, Any], public_url: str, cluster: str = "") -> dict[str, Any]:
    """Return a notification (its JSON) with the address of its object's page in each alert, as ``url``.

    Without an app's address ``url`` is None. It and the labels of its alerts say of which ``cluster`` it is, if that has a name.
    """
    named = {"cluster": cluster} if cluster else {}

    def with_url(alert: Mapping[str, Any]) -> dict[str, Any]:
        url = f"{public_url}{page_paths.within(alert['path'], cluster)}" if public_url else None
        return {**alert, "labels": {**alert["labels"], **named}, "url": url}

    alerts = {of: [with_url(alert) for alert in notification[of]] for of in ("firing", "resolved")}
    return {**notification, **named, **alerts}
