"""Incidents: the parts, alerts and the driver of one application as one thing, from its first sign to its end.

An incident lasts while a part of it stands, an alert of it fires, or its driver has not come back. It knows what was done from the
incident of the assessment before. After its end it says for a while how it ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from indoubt.collector.assess.findings import Severity, application_group, application_of
from indoubt.collector.assess.incident_steps import ORDERS, step_with_who, steps_done, steps_now
from indoubt.collector.assess.rules import RULES
from indoubt.collector.assess.situation import Situation
from indoubt.collector.verdicts.driver_state import DriverCondition, DriverState
from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.durations import steady_duration
from indoubt.lifecycle.rows.alerts import AlertRow
from indoubt.lifecycle.rows.attention import Attention, AttentionKind
from indoubt.lifecycle.rows.incidents import Incident, IncidentState, Step, place
from indoubt.lifecycle.rows.pipelines import RestartUnderWay

OVER_SHOWN_MS = 600_000
"""How long after its end an incident says how it ended."""
RESUMES_MS = 10_000
"""What comes back within this time is the same incident."""
SEEN_WITHIN_MS = 1_500
"""An end is seen within this time after the event of the driver that brought it."""
RESTART_TIMES = 2
"""A restart is waited for where a deadline leaves so many times as long as restarts usually take."""
NOTHING_LOST = "Nothing was lost."


def incidents(situation: Situation, parts: Sequence[Attention], before: Sequence[Incident]) -> tuple[Incident, ...]:
    """Return those that last, the most urgent first, then those that are over, the newest first; ``before``: of a moment ago."""
    known = {one.key: one for one in before if not _is_past(one, situation.now_ms, RESUMES_MS)}
    drivers = {application_group(driver.run.facts.pipeline): driver for driver in situation.drivers}
    by_group: dict[str, list[Attention]] = {}
    for part in parts:
        by_group.setdefault(part.group, []).append(part)
    alerts: dict[str, list[AlertRow]] = {}
    for alert in situation.alerts:
        alerts.setdefault(alert.group, []).append(alert)
    standing = dict.fromkeys((*by_group, *alerts))
    # A driver that runs and has no input yet counts as back for a moment, until its first batch begins.
    not_back = [
        one.key
        for one in known.values()
        if one.key not in standing and not _is_back(drivers.get(one.key), one, situation)
    ]
    names = standing | dict.fromkeys(not_back)
    deadlines = _deadlines(situation) if alerts.keys() - by_group.keys() else {}
    lasting = [
        _incident(
            name, by_group.get(name, ()), alerts.get(name, ()), drivers.get(name), known.get(name), situation, deadlines
        )
        for name in names
    ]
    ended = [_over(one, drivers.get(one.key), situation) for one in before if one.key not in names and not one.is_over]
    earlier = [_with_who(one, situation) for one in before if one.is_over and one.key not in names]
    over = [one for one in (*ended, *earlier) if one.steps and not _is_past(one, situation.now_ms, OVER_SHOWN_MS)]
    return tuple(sorted((*lasting, *over), key=place))


def _is_past(one: Incident, now_ms: int, length_ms: int) -> bool:
    return one.over_at_ms is not None and now_ms - one.over_at_ms >= length_ms


def _is_back(driver: DriverState | None, before: Incident, situation: Situation) -> bool:
    """Say whether a driver goes on: after an order ended a transaction for it, only a later sign of its own tells that."""
    if driver is None or driver.condition is DriverCondition.STOPPED:
        return True
    done_ms = [step.since_ms or 0 for step in steps_done(before, (), (), driver, situation) if step.remedy in ORDERS]
    return driver.shows_life and (driver.since_ms or 0) >= max(done_ms, default=0) - SEEN_WITHIN_MS


def _deadlines(situation: Situation) -> Mapping[str, int | None]:
    return {item.view.key: item.view.deadline_ms for item in situation.judged}


def _incident(
    group: str,
    parts: Sequence[Attention],
    alerts: Sequence[AlertRow],
    driver: DriverState | None,
    before: Incident | None,
    situation: Situation,
    deadlines: Mapping[str, int | None],
) -> Incident:
    # What became of rows is said before what became of the driver.
    parts = sorted(parts, key=lambda part: part.kind is not AttentionKind.TRANSACTIONS)
    steps = steps_now(parts, alerts, driver, situation)
    done = steps_done(before, steps, parts, driver, situation) if before is not None else []
    state = _state(parts, alerts, driver)
    left = [part.deadline_ms for part in parts] or [deadlines.get(alert.subject) for alert in alerts]
    began = [part.since_ms for part in parts] + [alert.since_ms for alert in alerts]
    if before is not None:
        began.append(before.since_ms)
    headline, consequence = _said(parts, alerts, driver, state, situation.now_ms)
    severities = {*(part.severity for part in parts), *(alert.severity for alert in alerts)}
    return Incident(
        key=group,
        application=application_of(group),
        state=state,
        severity=(Severity.CRITICAL if Severity.CRITICAL.value in severities else Severity.WARNING).value,
        headline=headline,
        consequence=consequence,
        since_ms=min((at for at in began if at is not None), default=None),
        deadline_ms=min((at for at in left if at is not None), default=None),
        steps=(*done, *steps),
        parts=tuple(parts),
        alerts=tuple(alert.key for alert in alerts),
    )


def _state(parts: Sequence[Attention], alerts: Sequence[AlertRow], driver: DriverState | None) -> IncidentState:
    restart = driver.restart if driver is not None else None
    if restart is None:
        return IncidentState.ACT if parts or alerts else IncidentState.WAIT
    is_late = any(part.deadline_ms is not None and not _ends_before(restart, part.deadline_ms) for part in parts)
    return IncidentState.ACT if is_late else IncidentState.WAIT


def _ends_before(restart: RestartUnderWay, deadline_ms: int) -> bool:
    usually_ms = restart.usually_ms
    return usually_ms is not None and restart.since_ms + RESTART_TIMES * usually_ms < deadline_ms


def _said(
    parts: Sequence[Attention],
    alerts: Sequence[AlertRow],
    driver: DriverState | None,
    state: IncidentState,
    now_ms: int,
) -> tuple[str, str]:
    """Return what happened, and what follows if nobody acts."""
    restart = driver.restart if driver is not None else None
    # How far it is, its step says.
    settles = "The new run settles what is in doubt: there is nothing to do." if restart else ""
    if parts:
        first, others = parts[0], list(parts[1:])
        of_driver = next((part for part in others if part.kind is AttentionKind.PIPELINE), None)
        headline = first.headline
        if of_driver is not None:
            others.remove(of_driver)
            headline = f"{headline} {of_driver.headline}"
        more = f" And {counted(len(others), 'more thing')} of it." if others else ""
        return headline + more, settles if state is IncidentState.WAIT else first.consequence
    if alerts:
        more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
        return f"{_sentence(alerts[0].summary)[:-1]}{more}.", settles or RULES[alerts[0].rule].consequence
    if driver is None:
        return "", ""
    name = driver.run.facts.pipeline
    if restart is not None:
        return f"{name} restarts.", settles
    silent = steady_duration(max(0, now_ms - (driver.since_ms or now_ms)))
    return (
        f"Nothing is in doubt any more, but {name} has given no sign for {silent}.",
        "If its driver stands still, nothing new is written until it is restarted.",
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _over(before: Incident, driver: DriverState | None, situation: Situation) -> Incident:
    """Return an incident that ended just now."""
    done = tuple(steps_done(before, (), (), driver, situation))
    return replace(
        before,
        state=IncidentState.OVER,
        deadline_ms=None,
        consequence="",
        steps=done,
        parts=(),
        alerts=(),
        over_at_ms=situation.now_ms,
        outcome=_outcome(done),
    )


def _with_who(over: Incident, situation: Situation) -> Incident:
    """Return it with who ordered its last step, which may become known after its end."""
    return replace(over, steps=tuple(step_with_who(step, situation) for step in over.steps))


def _outcome(done: Sequence[Step]) -> str:
    lost = dict.fromkeys(step.lost for step in done if step.lost)
    return " ".join(lost) or NOTHING_LOST
