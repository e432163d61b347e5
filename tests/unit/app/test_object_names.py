"""Keys as people read them."""

from __future__ import annotations

import pytest

from indoubt.app.components.object_names import KeyName, key_link, key_text, read_key
from tests.unit.app.page_driver import HOSTILE


@pytest.mark.parametrize(
    ("key", "name", "detail", "path"),
    [
        ("kafka:orders-0:0:4@1790000000000", "orders-0", "producer 0, epoch 4",
         "/transaction?key=kafka%3Aorders-0%3A0%3A4%401790000000000"),
        ("kafka:a:b\n:7:12:3", "a:b\n:7", "producer 12, epoch 3", "/transaction?key=kafka%3Aa%3Ab%0A%3A7%3A12%3A3"),
        ("mysql:words:12:88:0:ab12", "words:12:88:0:ab12", "mysql", "/transaction?key=mysql%3Awords%3A12%3A88%3A0%3Aab12"),
        ("hanging:orders-eu-2:4711:5:88100", "orders-eu-2", "hanging, producer 4711, epoch 5",
         "/partition?topic=orders-eu&partition=2"),
        ("word-count/1f0e/12/3", "batch 12 of word-count", "run 3", "/batch?pipeline=word-count&number=12"),
        ("pipeline:ip-count", "ip-count", "pipeline", "/pipeline?name=ip-count"),
        ("no key at all", "no key at all", "", ""),
    ],
)  # fmt: skip
def test_a_key_says_its_name_and_where_its_page_is(key, name, detail, path):
    assert read_key(key) == KeyName(name=name, detail=detail, path=path)


def test_a_key_from_outside_stays_text():
    for written in (key_text(HOSTILE), key_link(f"kafka:{HOSTILE}:1:2")):
        assert "<img" not in written
        assert "&lt;img" in written
