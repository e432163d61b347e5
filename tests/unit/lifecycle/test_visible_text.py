"""Control characters are shown, copied and read back, and forge no line of a log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indoubt.lifecycle.visible_text import actual, protect_log_lines, visible

FORGED = "orders\n2026-01-01 03:00:00 WARNING all is well\x1b[2J"


def test_what_moves_a_cursor_is_shown_by_its_number() -> None:
    assert visible("orders\n\x1b[2J\u202e") == r"orders\u000a\u001b[2J\u202e"


def test_other_escapes_stay_as_they_are() -> None:
    assert actual(r"C:\users\u0041") == r"C:\users\u0041"


@settings(deadline=None)
@given(st.text(alphabet="au\n\x00\u202e").filter(lambda text: "\\u" not in text))
@example("a\nb\u2066c\x7f")
def test_what_was_shown_is_read_back(text: str) -> None:
    assert actual(visible(text)) == text


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Return what a log gets that knows nothing of ours: any library may bring its own handler and formatter."""
    before, written = logging.getLogRecordFactory(), io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logging.getLogger(__name__)
    log.addHandler(handler)
    protect_log_lines()
    yield written
    logging.setLogRecordFactory(before)
    log.removeHandler(handler)


def test_a_message_stays_on_one_line(lines: io.StringIO) -> None:
    logging.getLogger(__name__).warning("held back: %s", FORGED)
    assert lines.getvalue() == "WARNING held back: orders\\u000a2026-01-01 03:00:00 WARNING all is well\\u001b[2J\n"


def test_no_line_of_a_stack_trace_begins_as_a_log_line_does(lines: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger(__name__).exception("it failed")
    first, *trace = lines.getvalue().splitlines()
    assert first == "ERROR it failed"
    assert any("Traceback" in line for line in trace)
    assert any("all is well\\u001b[2J" in line for line in trace)
    assert all(line.startswith("    ") for line in trace)
