"""Control characters are shown, copied and read back."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from lifecycle.visible_text import actual, visible


def test_what_moves_a_cursor_is_shown_by_its_number() -> None:
    assert visible("orders\n\x1b[2J\u202e") == r"orders\u000a\u001b[2J\u202e"


def test_other_escapes_stay_as_they_are() -> None:
    assert actual(r"C:\users\u0041") == r"C:\users\u0041"


@settings(deadline=None)
@given(st.text(alphabet="au\n\x00\u202e").filter(lambda text: "\\u" not in text))
@example("a\nb\u2066c\x7f")
def test_what_was_shown_is_read_back(text: str) -> None:
    assert actual(visible(text)) == text
