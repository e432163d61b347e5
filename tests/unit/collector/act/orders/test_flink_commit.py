"""What an order finds in the place of a list that was out of reach when the verdict was given."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from indoubt.collector.act.orders.flink_commit import still_out_of_reach
from indoubt.collector.records.formats.flink_records import Committable, FlinkCommittables, FlinkKind
from indoubt.lifecycle.errors import OrderRefused
from tests.unit.collector.flink_recordings import CLUSTER
from tests.unit.collector.observe.flink_checkpoint_files import JOB, NOBODY_READS, RECORDING
from tests.unit.collector.records.flink_metadata_recordings import RECORDED, coordinator

ROW = next(row for row in coordinator(RECORDING) if row["state"] == "ONGOING")
LISTED = Committable(ROW["transactional_id"], ROW["producer_id"], ROW["producer_epoch"])


def place(directory: Path) -> FlinkCommittables:
    return FlinkCommittables(
        cluster=CLUSTER, job=JOB, number=3, path=str(directory), kind=FlinkKind.CHECKPOINT, written_ms=0, read_ms=0
    )


def test_it_goes_on_while_the_list_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "_metadata").symlink_to(NOBODY_READS)
    assert still_out_of_reach(place(tmp_path), LISTED, "key") == place(tmp_path)


def test_a_list_that_can_be_read_by_now_must_name_it(tmp_path: Path) -> None:
    shutil.copytree(RECORDED / RECORDING, tmp_path / "chk-3")
    where = place(tmp_path / "chk-3")
    assert LISTED in still_out_of_reach(where, LISTED, "key").committables
    with pytest.raises(OrderRefused, match="does not list it"):
        still_out_of_reach(where, LISTED._replace(producer_epoch=LISTED.producer_epoch + 1), "key")


def test_a_list_that_is_damaged_or_gone_refuses_the_order(tmp_path: Path) -> None:
    with pytest.raises(OrderRefused, match="or is gone"):
        still_out_of_reach(place(tmp_path), LISTED, "key")
    (tmp_path / "_metadata").write_bytes(b"damaged")
    with pytest.raises(OrderRefused, match="is damaged"):
        still_out_of_reach(place(tmp_path), LISTED, "key")
