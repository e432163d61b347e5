"""Where the pages are: sections of one page by its address."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.unit.app.page_driver import said


def two_sections() -> None:
    from functools import partial

    import streamlit as st

    from indoubt.app.screens import sections

    shown = {"one": ("First", partial(st.html, "the first")), "two": ("Second", partial(st.html, "the second"))}
    sections.write("example", shown)


def test_the_address_says_which_section_is_shown():
    page = AppTest.from_function(two_sections).run()
    assert said(page) == "the first"
    page.query_params["show"] = "two"
    assert said(page.run()) == "the second"
    page.query_params["show"] = "three"
    assert said(page.run()) == "the first"


def test_a_chosen_section_stands_in_the_address_alone():
    page = AppTest.from_function(two_sections)
    page.query_params["page"] = "7"
    page = page.run().segmented_control[0].set_value("two").run()
    assert said(page) == "the second"
    assert page.query_params == {"show": "two"}
    page = page.segmented_control[0].set_value("one").run()
    assert said(page) == "the first"
    assert page.query_params == {}


def a_search_field() -> None:
    import streamlit as st

    from indoubt.app.screens import sections

    st.html(f"asked: {sections.search_field('words', 'a hint')}")


def test_what_is_searched_for_stands_in_the_address():
    page = AppTest.from_function(a_search_field)
    page.query_params["words"] = "ip-count"
    page.query_params["page"] = "3"
    page.query_params["verdict"] = "lost"
    page = page.run()
    assert said(page) == "asked: ip-count"
    page = page.text_input[0].set_value(" billing ").run()
    assert said(page) == "asked: billing"
    assert page.query_params == {"words": "billing", "verdict": "lost"}, "a shorter list has other pages"
    page = page.text_input[0].set_value("").run()
    assert page.query_params == {"verdict": "lost"}
