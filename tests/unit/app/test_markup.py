"""What comes from outside stays text, in HTML and in labels that read Markdown."""

from __future__ import annotations

import pytest

from indoubt.app.components.markup import Html, el, join, plain_label

HOSTILE = "<img src=x onerror=alert(1)>\" onmouseover='x' &amp; **b** :red[x] :smile: [a](http://e)"


def test_children_and_attributes_from_outside_are_escaped():
    made = el("b", HOSTILE, title=HOSTILE)
    assert "<img" not in made
    assert '" onmouseover' not in made
    assert "&lt;img src=x onerror=alert(1)&gt;" in made


def test_only_markup_made_here_is_not_escaped():
    inner = el("i", "x")
    assert el("b", inner) == "<b><i>x</i></b>"
    assert join([inner, str(inner)]) == "<i>x</i>&lt;i&gt;x&lt;/i&gt;"
    assert isinstance(join([]), Html)


def test_joining_two_pieces_of_markup_with_plus_loses_the_trust():
    assert "&lt;b&gt;" in el("p", el("b", "x") + "<script>")


def test_absent_children_and_attributes_are_left_out():
    assert el("a", None, False, 0, [], class_="x", title=None, data_until=5) == '<a class="x" data-until="5">0</a>'


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\x00", "\x1b", "\ufeff", "\u2066"])
def test_characters_that_hide_or_turn_text_around_are_drawn(sign):
    assert sign not in el("code", f"a{sign}b")
    assert f"\\u{ord(sign):04x}" in el("code", f"a{sign}b")


def test_a_label_escapes_every_sign_that_markdown_or_streamlit_reads():
    assert plain_label("**b** :red[x] $x$ <b> `c` a_b") == r"\*\*b\*\* \:red\[x\] \$x\$ \<b\> \`c\` a\_b"
    assert plain_label("ip count 12") == "ip count 12"


def test_lists_of_children_are_written_one_after_the_other_and_escaped():
    assert el("p", ["<", el("i", "x")], ()) == "<p>&lt;<i>x</i></p>"
