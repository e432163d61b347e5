"""Young transactions of applications that were seen to commit others: their owners are about to end them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.collector.facts.state import State
from indoubt.collector.facts.transaction_view import TransactionView
from indoubt.lifecycle.durations import duration
from indoubt.lifecycle.verdicts import Evidence

COORDINATOR = "transaction coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class YoungCase:
    """A transaction of another application that was seen to commit. ``old_ms``: it is young until it is open for so long."""

    application: str
    begun_ms: int
    old_ms: int

    @property
    def evidence(self) -> Evidence:
        """Return why its owner counts as alive."""
        fact = (
            f"{self.application} has committed others, and this one is open for less than {duration(self.old_ms)}: leave it to "
            "its owner. Later it counts as foreign"
        )
        return Evidence(fact=fact, source=COORDINATOR, at_ms=self.begun_ms)


def is_young(view: TransactionView, foreign_old_ms: int, now_ms: int) -> bool:
    """Say whether a transaction at a coordinator began less than ``foreign_old_ms`` ago."""
    return view.broker is not None and now_ms - view.broker.identity.start_ms < foreign_old_ms


def young_case(state: State, view: TransactionView, *, foreign_old_ms: int, now_ms: int) -> YoungCase | None:
    """Return the case of an open one of another application that was seen to commit, or None for any other."""
    if view.managed or view.broker is None or not view.is_running or not is_young(view, foreign_old_ms, now_ms):
        return None
    if not state.commits.of_application(view.transaction):
        return None
    return YoungCase(application=view.pipeline, begun_ms=view.broker.identity.start_ms, old_ms=foreign_old_ms)
