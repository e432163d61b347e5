"""Overview: what needs a hand, first and largest; then how everything else is."""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from app import blocked_readers, live, order_dialog, pending_commits
from app.charts import per_minute_chart
from app.collector_rows import NeedsHand, Observer, Overview, Transaction
from app.markup import Html, el, join
from app.time_text import amount, clock_time, counted, duration, since, time_left, time_left_bar
from app.transaction_groups import TransactionGroup, by_slot
from app.verdict_signs import OBSERVER_SIGNS, VERDICT_SIGNS, Tone, badge, verdict_badge
from lifecycle.verdicts import Verdict

MOST_GROUPS = 8
OBSERVERS_EVERY_S = 2.0
BUTTONS_PX = 370


def show() -> None:
    """Write the page: what is urgent looks again twice a second, the rest more calmly."""
    live.looked_again(_what_needs_a_hand, every_s=live.URGENT_EVERY_S)
    live.looked_again(_over_time, every_s=live.CHARTS_EVERY_S)
    live.looked_again(_observers, every_s=OBSERVERS_EVERY_S)


def _what_needs_a_hand() -> None:
    overview, transactions = live.collector().overview(), live.collector().transactions()
    hanging = live.collector().hanging() if any(one.verdict is Verdict.HANGING for one in overview.needs_hand) else []
    by_key = {one.key: one for one in (*transactions, *hanging)}
    zone = live.zone()
    if overview.needs_hand:
        with st.container(key="needs-hand"):
            live.write(_headline(overview.needs_hand, zone))
            for needed in overview.needs_hand[:MOST_GROUPS]:
                _group(needed, tuple(by_key[key] for key in needed.keys if key in by_key), zone)
            if len(overview.needs_hand) > MOST_GROUPS:
                live.write(el("p", f"{len(overview.needs_hand) - MOST_GROUPS} more on Pending commits.", class_="more"))
    else:
        with st.container(key="quiet"):
            live.write(_quiet(overview, zone))
    with st.container(key="counters"):
        live.write(_counters(overview, zone))


def _headline(needed: tuple[NeedsHand, ...], zone: tzinfo) -> Html:
    number = sum(len(one.keys) for one in needed)
    by_verdict: dict[Verdict, int] = {}
    for one in needed:
        by_verdict[one.verdict] = by_verdict.get(one.verdict, 0) + len(one.keys)
    deadline_ms = min((one.deadline_ms for one in needed if one.deadline_ms), default=None)
    first = [" · first timeout ", time_left(deadline_ms, zone)] if deadline_ms else []
    return el(
        "h2",
        f"{counted(number, 'transaction')} {'needs' if number == 1 else 'need'} a hand",
        *first,
        el("span", *[join([verdict_badge(one), f" {count} "]) for one, count in by_verdict.items()], class_="split"),
        class_="headline",
    )


def _group(needed: NeedsHand, shown: tuple[Transaction, ...], zone: tzinfo) -> None:
    group = TransactionGroup(transactions=by_slot(shown)) if shown else None
    token = group.token if group else f"gone-{needed.pipeline}-{needed.batch}"
    tone = VERDICT_SIGNS[needed.verdict][1]
    with st.container(key=f"hand-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(needed, group, tone, zone))
        with st.container(horizontal=True, width=BUTTONS_PX, horizontal_alignment="right", key=f"hand-buttons-{token}"):
            if group is None:
                return
            order_dialog.buttons(group, key="hand-")
            if st.button("Evidence", key=f"hand-evidence-{token}"):
                if needed.verdict is Verdict.HANGING:
                    st.switch_page(blocked_readers.page())
                st.switch_page(pending_commits.page(), query_params={"open": group.first.key})


def _card(needed: NeedsHand, group: TransactionGroup | None, tone: Tone, zone: tzinfo) -> Html:
    name: list[object] = [el("b", needed.pipeline, class_="name", title=needed.pipeline)]
    if needed.batch is not None:
        name.append(f" · batch {needed.batch}")
    name.append(f" · {counted(len(needed.keys), 'transaction')}")
    opened_at_ms = group.opened_at_ms if group else None
    facts = [
        needed.rows is not None and el("span", f"{amount(needed.rows)} rows"),
        needed.decided_at_ms and el("span", "decided ", since(needed.decided_at_ms, zone), " ago"),
        opened_at_ms and el("span", "open ", since(opened_at_ms, zone)),
        needed.partitions and el("span", _some(needed.partitions), title=", ".join(needed.partitions)),
    ]
    left = _left(opened_at_ms, needed.deadline_ms, zone)
    said = el("div", el("div", verdict_badge(needed.verdict), *name, class_="title"),
              el("div", needed.headline, class_="why"), el("div", *facts, class_="facts-line"), class_="said")  # fmt: skip
    return el("div", said, left, class_=f"card {tone.value}")


def _left(opened_at_ms: int | None, deadline_ms: int | None, zone: tzinfo) -> Html:
    if deadline_ms is None:
        return el("div", el("small", "no timeout runs"), class_="left")
    bar = time_left_bar(opened_at_ms, deadline_ms)
    return el("div", el("small", "time left"), time_left(deadline_ms, zone), bar, class_="left")


def _some(partitions: tuple[str, ...], most: int = 3) -> str:
    """Return the first partitions; those of the broker's own topics only where there are no others."""
    names = [name for name in partitions if not name.startswith("__")] or list(partitions)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _quiet(overview: Overview, zone: tzinfo) -> Html:
    said = f"All {overview.open} open transactions are in progress." if overview.open > 1 else (
        "The one open transaction is in progress." if overview.open else "No transaction is open.")  # fmt: skip
    quiet_since_ms = overview.quiet_since_ms
    tail = ["Nothing in doubt since ", clock_time(quiet_since_ms, zone), " (", since(quiet_since_ms, zone), ")."]
    return el("div", el("b", "✔ ", aria_hidden="true"), said, " ", *(tail if quiet_since_ms else ["Nothing is in doubt."]),
              class_="quiet", role="status")  # fmt: skip


def _counters(overview: Overview, zone: tzinfo) -> Html:
    def tile(name: str, value: object, hint: str) -> Html:
        return el("div", el("small", name), el("b", value), class_="tile", title=hint)

    return el(
        "div",
        tile("open", amount(overview.open), "transactions that have not ended, of every application"),
        tile("prepared, in doubt", amount(overview.prepared), "flushed, and not ended: prepared or decided"),
        tile("groups waiting", amount(overview.waiting_groups), "consumer groups that wait behind an open transaction"),
        tile("committed / min", amount(overview.committed_per_minute), "in the last minute"),
        tile("aborted / min", amount(overview.aborted_per_minute), "in the last minute, the lost ones included"),
        tile("oldest open", since(overview.oldest_open_at_ms, zone), "how long the oldest open one has been open"),
        class_="tiles",
    )


def _over_time() -> None:
    overview = live.collector().overview()
    chart, times = st.columns([3, 1])
    with chart, st.container(key="per-minute"):
        live.write(el("h3", "Transactions per minute by outcome", el("small", " the last 60 minutes")))
        if any(minute.committed or minute.aborted or minute.lost for minute in overview.per_minute):
            st.plotly_chart(
                per_minute_chart(overview.per_minute, live.zone()),
                key="per-minute-chart",
                config={"displayModeBar": False},
                alt="Stacked bars: committed, aborted and lost transactions per minute, the last 60 minutes",
            )
        else:
            live.write(el("p", "No transaction ended in the last 60 minutes.", class_="empty"))
    with times, st.container(key="checkpoint-times"):
        live.write(_checkpoint_times(overview))


def _checkpoint_times(overview: Overview) -> Html:
    if not overview.checkpoints_total:
        return join([el("h3", "Checkpoints"), el("p", "None was seen yet.", class_="empty")])
    failed = overview.checkpoints_failed
    verdict = (
        badge("✖", f"{failed} failed of {overview.checkpoints_total:,}", Tone.WARNING)
        if failed
        else badge("✔", f"0 failed of {overview.checkpoints_total:,}", Tone.GOOD)
    )
    return join([
        el("h3", "Checkpoints"),
        el("dl", el("dt", "p50"), el("dd", duration(overview.checkpoint_p50_ms)),
           el("dt", "p99"), el("dd", duration(overview.checkpoint_p99_ms)), class_="pair"),
        verdict,
    ])  # fmt: skip


def _observers() -> None:
    status = live.collector().status()
    with st.container(key="observers"):
        live.write(
            el(
                "div",
                el("small", "observers", title="each source the collector watches, and the age of its last good look"),
                *[_observer(one) for one in status.observers],
                el("small", f"{amount(status.events)} events"),
                class_="observers",
            )
        )


def _observer(one: Observer) -> Html:
    sign, tone = OBSERVER_SIGNS.get(one.state, ("?", Tone.NOTICE))
    if one.state == "down":
        since_text = f" since {clock_time(one.since_ms, live.zone())}" if one.since_ms else ""
        return badge(sign, f"{one.name} down{since_text}: {one.error or 'no reason given'}", tone, one.error)
    if one.state == "absent":
        return badge(sign, f"{one.name} {one.error}", tone)
    # Rounded: a delay that changes with every look would redraw the line every second.
    delay = (
        ""
        if one.delay_ms is None
        else (" < 1 s" if one.delay_ms < 1000 else f" {duration(one.delay_ms // 1000 * 1000)}")
    )
    return badge(sign, f"{one.name}{delay if one.state == 'up' else ' ' + one.state}", tone, one.error or None)
