"""Tables."""

from __future__ import annotations

from indoubt.app.components.tables import table


def test_a_short_cell_of_a_table_stays_in_one_line():
    said = table(["Took", "Why"], [["640 ms", "a whole sentence that may be broken"]])
    assert '<td data-name="Took" class="short">640 ms</td>' in said
    assert '<td data-name="Why">' in said
