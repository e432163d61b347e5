"""The evidence of one transaction: its steps so far, the decision, the handle, the broker's view, its siblings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

import streamlit as st

from app import live
from app.client.collector_client import CollectorError, Failure
from app.components.facts import decision, facts
from app.components.markup import Html, el, join, plain_label
from app.components.time_text import clock_time, counted, duration, exact_time, since, time_left
from app.components.verdict_signs import VERDICT_SIGNS, state_text, verdict_badge
from app.dialogs.order_text import fact_line
from lifecycle.rows.transactions import TimelineEntry, TransactionDetailRow, TransactionRow


def show(key: str, names: Mapping[str, str]) -> None:
    """Write the evidence of the transaction ``key``, with a choice among its batch's; ``names`` maps keys to ids."""
    with st.container(key="evidence", border=True):
        try:
            detail = live.collector().transaction(key)
        except CollectorError as error:
            if error.failure is not Failure.UNKNOWN_KEY:
                raise
            live.write(el("p", "The collector no longer has ", el("code", key), ".", class_="empty"))
            return
        _choice_of_sibling(detail, names)
        zone = live.zone()
        live.write(join([_title(detail, zone), _life(detail, zone)]))
        broker = detail.broker and {**detail.broker, "client_transaction_version": detail.client_transaction_version}
        live.write(el("div", _why(detail, zone), decision(detail), facts("Handle", detail.handle),
                      facts("Broker's view", broker), class_="evidence"))  # fmt: skip


def _choice_of_sibling(detail: TransactionDetailRow, names: Mapping[str, str]) -> None:
    keys = sorted({detail.key, *detail.siblings})
    if len(keys) < 2:
        return
    # A sibling that ends leaves the list; its name is kept while its evidence is open.
    remembered: dict[str, str] = st.session_state.setdefault("sibling_names", {})
    remembered.update({key: names[key] for key in keys if key in names})
    remembered[detail.key] = detail.transaction
    widget = f"evidence-slot-{detail.key}"
    st.segmented_control(
        "Transactions of this batch",
        keys,
        default=detail.key,
        required=True,
        format_func=lambda key: plain_label(remembered.get(key, key)),
        key=widget,
        on_change=lambda: st.query_params.update(open=st.session_state[widget]),
    )


def _title(transaction: TransactionRow, zone: tzinfo) -> Html:
    return el(
        "div",
        verdict_badge(transaction.verdict),
        el("code", transaction.transaction),
        state_text(transaction.state),
        transaction.opened_at_ms
        and el(
            "span",
            f"opened {exact_time(transaction.opened_at_ms, zone)}, ",
            since(transaction.opened_at_ms, zone),
            " ago",
        ),
        transaction.deadline_ms and el("span", "times out in ", time_left(transaction.deadline_ms, zone)),
        class_="evidence-title",
    )


def _life(detail: TransactionDetailRow, zone: tzinfo) -> Html:
    """Return the steps since its opening and the time between them, with marks on a ruler from opening to timeout."""
    moments = detail.timeline
    start_ms = detail.opened_at_ms or (moments[0].at_ms if moments else None)
    if start_ms is None:
        return el("p", "Its opening time is unknown.", class_="empty")
    last_ms = moments[-1].at_ms if moments else start_ms
    end_ms = max(detail.deadline_ms or last_ms, start_ms + 1)
    marks = [
        el("i", class_="mark", style=f"left:{_share(moment.at_ms, start_ms, end_ms):.2f}%", title=moment.what)
        for moment in moments
    ]
    now = detail.deadline_ms and el("i", class_="now", data_now_from=start_ms, data_now_until=end_ms, title="now")
    ruler = el(
        "div", *marks, now, el("i", class_="edge") if detail.deadline_ms else None, class_="ruler", aria_hidden="true"
    )
    ends = el(
        "div",
        el("span", clock_time(start_ms, zone)),
        detail.deadline_ms and el("span", f"the broker aborts it: {clock_time(end_ms, zone)}", class_="edge-text"),
        class_="ruler-ends",
    )
    return el("div", ruler, ends, _steps(moments, start_ms, zone), class_="life")


def _steps(moments: tuple[TimelineEntry, ...], start_ms: int, zone: tzinfo) -> Html:
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


def _why(detail: TransactionDetailRow, zone: tzinfo) -> Html:
    facts = [fact_line(fact, zone) for fact in detail.evidence]
    last_seen = detail.last_seen_ms
    return el(
        "section",
        el("h4", f"Why “{detail.verdict.value}”", el("small", f" rule {detail.rule}")),
        el("p", VERDICT_SIGNS[detail.verdict][2].capitalize() + "."),
        el("ul", *facts) if facts else el("p", "The collector sent no evidence.", class_="empty"),
        detail.ours and el("p", "Last heartbeat of the pipeline: ", since(last_seen, zone), last_seen and " ago"),
        detail.partitions
        and el("p", f"Wrote to {counted(len(detail.partitions), 'partition')}: ", ", ".join(detail.partitions)),
    )
