"""Drives pages by Streamlit's own test driver, over a server that answers by docs/api.md."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import streamlit as st
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.testing.v1 import AppTest

from indoubt.app import live
from indoubt.app.dialogs import order_dialog, run_lines
from indoubt.app.regions import component
from indoubt.app.settings import COLLECTOR_URL, FAULT_INJECTION_URL
from indoubt.app.settings import TOKEN as TOKEN_VARIABLE
from tests.unit.app import region_in_streamlit
from tests.unit.app.contract_answers import Answers
from tests.unit.app.contract_knowledge import TOKEN
from tests.unit.app.contract_server import ContractServer

HOSTILE = "<img src=x onerror=alert(1)> **bold** :red[x]"


@contextlib.contextmanager
def answering(known: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    """Have pages ask a collector that knows this."""
    with ContractServer(known) as server:
        monkeypatch.setenv(COLLECTOR_URL, server.url)
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        monkeypatch.delenv(FAULT_INJECTION_URL, raising=False)
        monkeypatch.setattr(component, "show", region_in_streamlit.show)
        # No installed package brings a component: reading the metadata of each takes longer than the page.
        monkeypatch.setattr(BidiComponentManager, "discover_and_register_components", lambda *_, **__: None)
        # What a test has changed is on the page at the next look.
        monkeypatch.setattr(live, "SHARED_FOR_S", 0.0)
        # What a person has seen lives as long as the app's process: each test has one of its own.
        monkeypatch.setattr(run_lines, "_dismissed", {})
        # An order's result is in its dialog at once, however busy the machine is.
        monkeypatch.setattr(order_dialog, "MOMENT_S", 20.0)
        st.cache_resource.clear()
        yield known
        st.cache_resource.clear()


def knowing(known: Callable[[], Answers]) -> Any:
    """Return the fixture of a collector that knows this, which all pages of the test ask."""

    @pytest.fixture
    def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
        with answering(known(), monkeypatch) as answers:
            yield answers

    return answers


def opened(name: str, /, **query: str) -> AppTest:
    """Return the page ``app.<name>`` with the top line and the dialogs around it, run once; ``query``: of its address."""

    def script(name: str) -> None:
        import importlib

        from indoubt.app import live
        from indoubt.app.dialogs import button_clicks, filter_order_dialog, run_lines, transactions_dialog
        from tests.unit.app import region_in_streamlit

        live.read_rights()
        region_in_streamlit.write_without_buttons("frame")
        run_lines.show(filter_order_dialog.DIALOG.open_again)
        transactions_dialog.DIALOG.show_last_result()
        importlib.import_module(f"indoubt.app.screens.{name}").show()
        button_clicks.show_open_dialog()

    page = AppTest.from_function(script, kwargs={"name": name}, default_timeout=20)
    for parameter, value in query.items():
        page.query_params[parameter] = value
    page.run()
    assert not page.exception, page.exception
    return page


def at(path: str) -> AppTest:
    """Return the page of an object at this address of lifecycle.page_paths."""
    parts = urlsplit(path)
    return opened(f"objects.{parts.path.strip('/')}", **dict(parse_qsl(parts.query)))


def said(page: AppTest) -> str:
    """Return all markup on the page."""
    return "\n".join(element.proto.body for element in page.get("html"))


def button(page: AppTest, label: str) -> Any:
    """Return the one button of that label."""
    (found,) = [one for one in page.button if one.label == label]
    return found


def press(page: AppTest, label: str) -> AppTest:
    """Press the one button of that label, and return the page after it."""
    return button(page, label).click().run()


def labels(page: AppTest) -> list[str]:
    """Return what stands on the page's buttons."""
    return [one.label for one in page.button]
