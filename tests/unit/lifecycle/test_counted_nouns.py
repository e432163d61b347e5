from __future__ import annotations

from indoubt.lifecycle.counted_nouns import counted


def test_one_thing_is_not_many():
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(0, "batch", "batches") == "0 batches"
    assert counted(1200, "transaction") == "1,200 transactions"
