"""The pages of single objects by their addresses, as lifecycle.page_paths makes them."""

from __future__ import annotations

import streamlit as st

from app.screens.objects import alert, batch, partition, pipeline, transaction


def pages() -> list[st.Page]:
    """Return a page for each kind of object, in no navigation."""
    shown = {
        "transaction": transaction.show,
        "batch": batch.show,
        "pipeline": pipeline.show,
        "alert": alert.show,
        "partition": partition.show,
    }
    return [st.Page(show, title=name.capitalize(), url_path=name, visibility="hidden") for name, show in shown.items()]
