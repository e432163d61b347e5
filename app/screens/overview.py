"""Overview: transactions that need attention come first and largest, then the state of everything else."""

from __future__ import annotations

from datetime import tzinfo

import streamlit as st

from app import live
from app.components.charts import per_minute_chart
from app.components.markup import Html, el, join, widget_token
from app.components.time_text import amount, clock_time, counted, duration, since, time_left, time_left_bar
from app.components.transaction_groups import TransactionGroup, by_slot
from app.components.verdict_signs import OBSERVER_SIGNS, VERDICT_SIGNS, Tone, badge, verdict_badge
from app.dialogs import order_dialog
from app.screens import blocked_readers, pending_commits
from lifecycle.rows.overview import ActionRequired, Overview
from lifecycle.rows.status import ObserverRow
from lifecycle.rows.transactions import TransactionRow
from lifecycle.verdicts import Verdict

MAX_GROUPS = 8
OBSERVERS_EVERY_S = 2.0
BUTTONS_PX = 370


def show() -> None:
    """Write the page: the urgent part refreshes twice a second, the rest more slowly."""
    live.auto_refresh(_what_needs_attention, every_s=live.URGENT_EVERY_S)
    live.auto_refresh(_over_time, every_s=live.CHARTS_EVERY_S)
    live.auto_refresh(_observers, every_s=OBSERVERS_EVERY_S)


def _what_needs_attention() -> None:
    overview, transactions = live.collector().overview(), live.collector().transactions()
    hanging = (
        live.collector().hanging()
        if any(group.verdict is Verdict.HANGING for group in overview.action_required)
        else []
    )
    by_key = {transaction.key: transaction for transaction in (*transactions, *hanging)}
    zone = live.zone()
    if overview.action_required:
        with st.container(key="needs-attention"):
            live.write(_headline(overview.action_required, zone))
            for needed in overview.action_required[:MAX_GROUPS]:
                _group(needed, tuple(by_key[key] for key in needed.keys if key in by_key), zone)
            if len(overview.action_required) > MAX_GROUPS:
                live.write(
                    el("p", f"{len(overview.action_required) - MAX_GROUPS} more on Pending commits.", class_="more")
                )
    else:
        with st.container(key="quiet"):
            live.write(_quiet(overview, zone))
    with st.container(key="counters"):
        live.write(_counters(overview, zone))


def _headline(groups: tuple[ActionRequired, ...], zone: tzinfo) -> Html:
    number = sum(len(group.keys) for group in groups)
    by_verdict: dict[Verdict, int] = {}
    for group in groups:
        by_verdict[group.verdict] = by_verdict.get(group.verdict, 0) + len(group.keys)
    deadline_ms = min((group.deadline_ms for group in groups if group.deadline_ms), default=None)
    first = [" · first timeout ", time_left(deadline_ms, zone)] if deadline_ms else []
    return el(
        "h2",
        f"{counted(number, 'transaction')} {'needs' if number == 1 else 'need'} attention",
        *first,
        el(
            "span",
            *[join([verdict_badge(verdict), f" {count} "]) for verdict, count in by_verdict.items()],
            class_="split",
        ),
        class_="headline",
    )


def _group(needed: ActionRequired, shown: tuple[TransactionRow, ...], zone: tzinfo) -> None:
    group = TransactionGroup(transactions=by_slot(shown)) if shown else None
    # A batch with two verdicts has two cards, and the group's own token would be the same for both.
    token = widget_token(repr((needed.verdict, needed.pipeline, needed.batch)))
    tone = VERDICT_SIGNS[needed.verdict][1]
    with st.container(key=f"attention-{token}", border=True, horizontal=True, vertical_alignment="center"):
        with st.container():
            live.write(_card(needed, group, tone, zone))
        with st.container(
            horizontal=True, width=BUTTONS_PX, horizontal_alignment="right", key=f"attention-buttons-{token}"
        ):
            if group is None:
                return
            order_dialog.buttons(group, key="attention-", token=token)
            if st.button("Evidence", key=f"attention-evidence-{token}"):
                if needed.verdict is Verdict.HANGING:
                    st.switch_page(blocked_readers.page())
                st.switch_page(pending_commits.page(), query_params={"open": group.first.key})


def _card(needed: ActionRequired, group: TransactionGroup | None, tone: Tone, zone: tzinfo) -> Html:
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
    text = el("div", el("div", verdict_badge(needed.verdict), *name, class_="title"),
              el("div", needed.headline, class_="why"), el("div", *facts, class_="facts-line"), class_="said")  # fmt: skip
    return el("div", text, left, class_=f"card {tone.value}")


def _left(opened_at_ms: int | None, deadline_ms: int | None, zone: tzinfo) -> Html:
    if deadline_ms is None:
        return el("div", el("small", "no timeout"), class_="left")
    bar = time_left_bar(opened_at_ms, deadline_ms)
    return el("div", el("small", "time left"), time_left(deadline_ms, zone), bar, class_="left")


def _some(partitions: tuple[str, ...], most: int = 3) -> str:
    """Return the first partitions; those of the broker's own topics only if there are no others."""
    names = [name for name in partitions if not name.startswith("__")] or list(partitions)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _quiet(overview: Overview, zone: tzinfo) -> Html:
    text = f"All {overview.counts.open} open transactions are in progress." if overview.counts.open > 1 else (
        "The only open transaction is in progress." if overview.counts.open else "No transaction is open.")  # fmt: skip
    quiet_since_ms = overview.quiet_since_ms
    tail = ["Nothing in doubt since ", clock_time(quiet_since_ms, zone), " (", since(quiet_since_ms, zone), ")."]
    return el("div", el("b", "✔ ", aria_hidden="true"), text, " ", *(tail if quiet_since_ms else ["Nothing is in doubt."]),
              class_="quiet", role="status")  # fmt: skip


def _counters(overview: Overview, zone: tzinfo) -> Html:
    def tile(name: str, value: object, hint: str) -> Html:
        return el("div", el("small", name), el("b", value), class_="tile", title=hint)

    return el(
        "div",
        tile("open", amount(overview.counts.open), "open transactions of all applications"),
        tile("prepared, in doubt", amount(overview.counts.prepared), "prepared or decided, but not ended"),
        tile(
            "groups waiting",
            amount(overview.counts.waiting_groups),
            "consumer groups that wait behind an open transaction",
        ),
        tile("committed / min", amount(overview.counts.committed_per_minute), "in the last minute"),
        tile("aborted / min", amount(overview.counts.aborted_per_minute), "in the last minute, including lost ones"),
        tile("oldest open", since(overview.oldest_open_at_ms, zone), "the age of the oldest open transaction"),
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
    if not overview.checkpoints.total:
        return join([el("h3", "Checkpoints"), el("p", "None yet.", class_="empty")])
    failed = overview.checkpoints.failed
    verdict = (
        badge("✖", f"{failed} failed of {overview.checkpoints.total:,}", Tone.WARNING)
        if failed
        else badge("✔", f"0 failed of {overview.checkpoints.total:,}", Tone.GOOD)
    )
    return join([
        el("h3", "Checkpoints"),
        el("dl", el("dt", "p50"), el("dd", duration(overview.checkpoints.p50_ms)),
           el("dt", "p99"), el("dd", duration(overview.checkpoints.p99_ms)), class_="pair"),
        verdict,
    ])  # fmt: skip


def _observers() -> None:
    status = live.collector().status()
    with st.container(key="observers"):
        live.write(
            el(
                "div",
                el(
                    "small",
                    "observers",
                    title="each source that the collector reads, and the time since it last read it",
                ),
                *[_observer(observer) for observer in status.observers],
                el("small", f"{amount(status.events)} events"),
                class_="observers",
            )
        )


def _observer(observer: ObserverRow) -> Html:
    sign, tone = OBSERVER_SIGNS.get(observer.state, ("?", Tone.NOTICE))
    if observer.state == "down":
        since_text = f" since {clock_time(observer.since_ms, live.zone())}" if observer.since_ms else ""
        return badge(
            sign, f"{observer.name} down{since_text}: {observer.error or 'no reason given'}", tone, observer.error
        )
    if observer.state == "absent":
        return badge(sign, f"{observer.name} {observer.error}", tone)
    # Rounded: a delay that changes with every refresh would redraw the line every second.
    delay = (
        ""
        if observer.delay_ms is None
        else (" < 1 s" if observer.delay_ms < 1000 else f" {duration(observer.delay_ms // 1000 * 1000)}")
    )
    return badge(
        sign,
        f"{observer.name}{delay if observer.state == 'up' else ' ' + observer.state}",
        tone,
        observer.error or None,
    )
