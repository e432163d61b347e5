"""The evidence of one transaction: its life so far, the decision, the handle, the broker's view, its siblings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

import streamlit as st

from app import live
from app.collector_client import CollectorError, Failure
from app.collector_rows import Json, Moment, Transaction, TransactionDetail
from app.markup import Html, el, join, plain_label
from app.order_text import fact_line
from app.time_text import amount, clock_time, counted, duration, exact_time, since, time_left
from app.verdict_signs import VERDICT_SIGNS, state_text, verdict_badge

_LENGTHS_END = "_ms"
_EPOCH_FROM_MS = 100_000_000_000
"""No length is as long as this (3 years), and no time of a transaction is as early (1973)."""


def show(key: str, names: Mapping[str, str]) -> None:
    """Write the evidence of the transaction ``key``, with a choice among those of its batch; ``names`` maps keys to ids."""
    with st.container(key="evidence", border=True):
        try:
            detail = live.collector().transaction(key)
        except CollectorError as error:
            if error.failure is not Failure.UNKNOWN_KEY:
                raise
            live.write(el("p", "The collector does not know ", el("code", key), " any more.", class_="empty"))
            return
        _choice_of_sibling(detail, names)
        zone = live.zone()
        live.write(join([_title(detail.transaction, zone), _life(detail, zone)]))
        live.write(el("div", _why(detail, zone), _decision(detail, zone), _facts("Handle", detail.handle, zone),
                      _facts("Broker's view", detail.broker, zone), class_="evidence"))  # fmt: skip


def _choice_of_sibling(detail: TransactionDetail, names: Mapping[str, str]) -> None:
    keys = sorted({detail.transaction.key, *detail.siblings})
    if len(keys) < 2:
        return
    # Siblings that end leave the list, and would lose their names while they are looked at.
    remembered: dict[str, str] = st.session_state.setdefault("sibling_names", {})
    remembered.update({key: names[key] for key in keys if key in names})
    remembered[detail.transaction.key] = detail.transaction.transaction
    widget = f"evidence-slot-{detail.transaction.key}"
    st.segmented_control(
        "Transactions of this batch",
        keys,
        default=detail.transaction.key,
        required=True,
        format_func=lambda key: plain_label(remembered.get(key, key)),
        key=widget,
        on_change=lambda: st.query_params.update(open=st.session_state[widget]),
    )


def _title(one: Transaction, zone: tzinfo) -> Html:
    return el(
        "div",
        verdict_badge(one.verdict),
        el("code", one.transaction),
        state_text(one.state),
        one.opened_at_ms
        and el("span", f"opened {exact_time(one.opened_at_ms, zone)}, ", since(one.opened_at_ms, zone), " ago"),
        one.deadline_ms and el("span", "times out in ", time_left(one.deadline_ms, zone)),
        class_="evidence-title",
    )


def _life(detail: TransactionDetail, zone: tzinfo) -> Html:
    """Return the steps from opened on, with the time between them, drawn between opening and the timeout."""
    one, moments = detail.transaction, detail.timeline
    start_ms = one.opened_at_ms or (moments[0].at_ms if moments else None)
    if start_ms is None:
        return el("p", "When it was opened is not known.", class_="empty")
    last_ms = moments[-1].at_ms if moments else start_ms
    end_ms = max(one.deadline_ms or last_ms, start_ms + 1)
    marks = [
        el("i", class_="mark", style=f"left:{_share(moment.at_ms, start_ms, end_ms):.2f}%", title=moment.what)
        for moment in moments
    ]
    now = one.deadline_ms and el("i", class_="now", data_now_from=start_ms, data_now_until=end_ms, title="now")
    ruler = el(
        "div", *marks, now, el("i", class_="edge") if one.deadline_ms else None, class_="ruler", aria_hidden="true"
    )
    ends = el(
        "div",
        el("span", clock_time(start_ms, zone)),
        one.deadline_ms and el("span", f"the broker aborts it: {clock_time(end_ms, zone)}", class_="edge-text"),
        class_="ruler-ends",
    )
    return el("div", ruler, ends, _steps(moments, start_ms, zone), class_="life")


def _steps(moments: tuple[Moment, ...], start_ms: int, zone: tzinfo) -> Html:
    lines, before_ms = [], start_ms
    for moment in moments:
        gap = moment.at_ms - before_ms
        hint = f"{exact_time(moment.at_ms, zone)} · {moment.source}"
        lines.append(el("li", gap > 0 and el("small", f"+{duration(gap)}"), el("b", moment.what, title=hint),
                        el("small", f"{clock_time(moment.at_ms, zone)}.{moment.at_ms % 1000:03d} · {moment.source}")))  # fmt: skip
        before_ms = max(before_ms, moment.at_ms)
    return el("ol", *lines, class_="steps")


def _share(at_ms: int, start_ms: int, end_ms: int) -> float:
    return 100 * min(1.0, max(0.0, (at_ms - start_ms) / max(1, end_ms - start_ms)))


def _why(detail: TransactionDetail, zone: tzinfo) -> Html:
    one = detail.transaction
    facts = [fact_line(fact, zone) for fact in one.evidence]
    sign_of_life = detail.last_sign_of_life_ms
    return el(
        "section",
        el("h4", f"Why “{one.verdict.value}”", one.rule is not None and el("small", f" rule {one.rule}")),
        el("p", VERDICT_SIGNS[one.verdict][2].capitalize() + "."),
        el("ul", *facts) if facts else el("p", "The collector gave no evidence.", class_="empty"),
        one.ours and el("p", "Last sign of life of the pipeline: ", since(sign_of_life, zone), sign_of_life and " ago"),
        one.partitions
        and el("p", f"Wrote to {counted(len(one.partitions), 'partition')}: ", ", ".join(one.partitions)),
    )


def _decision(detail: TransactionDetail, zone: tzinfo) -> Html:
    if detail.decision is None:
        text = (
            "None in the decision log."
            if detail.transaction.ours
            else "Not a pipeline of ours: it writes no decisions."
        )
        return el("section", el("h4", "Decision"), el("p", text, class_="empty"))
    return _facts("Decision", detail.decision, zone)


def _facts(title: str, values: Json | None, zone: tzinfo) -> Html:
    if not values:
        return el("section", el("h4", title), el("p", "Not known.", class_="empty"))
    pairs = [
        (el("dt", name.removesuffix(_LENGTHS_END).replace("_", " ")), el("dd", _value(name, value, zone)))
        for name, value in values.items()
    ]
    return el("section", el("h4", title), el("dl", *[part for pair in pairs for part in pair], class_="facts"))


def _value(name: str, value: object, zone: tzinfo) -> str:
    if value is None:
        return "–"
    if isinstance(value, int) and not isinstance(value, bool):
        if name.endswith(_LENGTHS_END):
            return exact_time(value, zone) if value >= _EPOCH_FROM_MS else duration(value)
        return amount(value) if name in ("rows", "bytes") else str(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "–"
    if isinstance(value, Mapping):
        return ", ".join(f"{inner}: {said}" for inner, said in value.items())
    return str(value)
