"""A run that would fill the disk or fall out of the page cache is refused before it starts."""

from __future__ import annotations

import pytest

from benchmarks import machine


def test_room_for_little_is_there(tmp_path):
    machine.require_room(tmp_path, 1000, 3)


def test_too_much_for_the_disk_is_refused(tmp_path):
    with pytest.raises(machine.NotEnoughRoom, match="take fewer --records"):
        machine.require_room(tmp_path, 1 << 50, 3)


def test_too_much_for_the_page_cache_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_meminfo", lambda: {"MemAvailable": 1000, "MemTotal": 2000})
    with pytest.raises(machine.NotEnoughRoom, match="page cache"):
        machine.require_room(tmp_path, 1_000_000, 1)
