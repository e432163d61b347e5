"""Names below a sink's directory: parsed whole, and skipped by readers while they are in doubt."""

from __future__ import annotations

import pytest

from indoubt.lifecycle.branch_id import BranchId
from indoubt.resource_managers.files.names import branch_file, is_visible_file, read_branch_file, visible_file


@pytest.mark.parametrize("prefix", ["orders", "a-1", "a-1-2-3-4", "_x.y", "0-0-0-0"])
@pytest.mark.parametrize("what", ["open", "prepared", "0", "17", "prepared.draft"])
def test_a_hidden_name_is_read_as_it_was_written(prefix, what):
    branch = BranchId.new(prefix=prefix, batch=12, attempt=345, slot=6)
    folder, _, base = branch_file(branch, what).rpartition("/")
    assert folder == "_indoubt/branches"
    assert read_branch_file(base) == (branch, what)
    assert not base.endswith((".parquet", ".jsonl"))


@pytest.mark.parametrize("name", ["", "id", "orders.open", "orders-1-2-3-0123abcd", "orders-01-2-3-0123abcd.open"])
def test_other_names_are_not_ours(name):
    assert read_branch_file(name) is None


def test_a_visible_name_is_hidden_by_no_prefix():
    branch = BranchId.new(prefix="_orders", batch=1, attempt=2, slot=3)
    assert visible_file(branch, 0, "", "parquet") == f"part-_orders-1-2-3-{branch.nonce}-0.parquet"
    assert visible_file(branch, 0, "day=1", "jsonl") == f"day=1/part-_orders-1-2-3-{branch.nonce}-0.jsonl"


def test_a_commit_moves_nothing_out_of_the_directory():
    branch = BranchId.new(prefix="orders", batch=1, attempt=2, slot=3)
    name = visible_file(branch, 7, "", "parquet")
    assert is_visible_file(branch, 7, name)
    assert is_visible_file(branch, 7, f"day=..%2F/hour=1/{name}")
    for wrong in (f"../{name}", f"/{name}", f"day=1/../{name}", f"_indoubt/{name}", "other.parquet", f"{name}/x"):
        assert not is_visible_file(branch, 7, wrong)
    assert not is_visible_file(branch, 8, name)
