"""What others wrote forges no line of a log: neither by a message nor by the text of an exception."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from lifecycle import log_lines

FORGED = "orders\n2026-01-01 03:00:00 WARNING all is well\x1b[2J"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Return what a log gets that knows nothing of ours: any library may bring its own handler and formatter."""
    before, written = logging.getLogRecordFactory(), io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    log = logging.getLogger(__name__)
    log.addHandler(handler)
    log_lines.protect()
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
