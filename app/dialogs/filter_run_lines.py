"""A line for each order by filter that this person gave and has not seen the end of: a reload of the page loses none."""

from __future__ import annotations

import streamlit as st

from app import live
from app.client import filter_runs
from app.client.filter_runs import FilterRun
from app.dialogs import filter_order_dialog
from app.dialogs.filter_order_text import in_one_line

KEY = "filter-runs"


def show() -> None:
    """Write the lines; they refresh themselves while one of the orders is being sent and its dialog is closed."""
    runs = filter_runs.RUNS.of(live.asking_person())
    is_followed = any(run.progress.is_sending for run in runs) and not filter_order_dialog.is_open()

    @st.fragment(run_every=live.LIVE_EVERY_S if is_followed else None, key=f"{KEY}-lines")
    def lines() -> None:
        now = filter_runs.RUNS.of(live.asking_person())
        if now:
            with st.container(key=KEY):
                for run in now:
                    _line(run)
        if is_followed and not any(run.progress.is_sending for run in now):
            # The page is written once more, and this not again.
            st.rerun()

    lines()


def _line(run: FilterRun) -> None:
    progress = run.progress
    with st.container(horizontal=True, vertical_alignment="center", key=f"{KEY}-{run.id[:8]}"):
        with st.container():
            live.write(in_one_line(run, progress))
        if st.button("Open", key=f"{KEY}-open-{run.id}"):
            filter_order_dialog.open_again(run)
            # A dialog is opened by the page, not by a part of it.
            st.rerun()
        if not progress.is_sending:
            st.button("Dismiss", key=f"{KEY}-dismiss-{run.id}", on_click=filter_runs.RUNS.dismiss, args=(run,))
