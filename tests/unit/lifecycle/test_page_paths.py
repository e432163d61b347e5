"""Addresses of pages: names from outside may contain anything."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from indoubt.lifecycle import page_paths

HOSTILE = "a&b=c?d#e/ü \n%2F"


@pytest.mark.parametrize(
    ("path", "page", "query"),
    [
        (page_paths.transaction(HOSTILE), "/transaction", {"key": HOSTILE}),
        (page_paths.batch(HOSTILE, 92), "/batch", {"pipeline": HOSTILE, "number": "92"}),
        (page_paths.pipeline(HOSTILE), "/pipeline", {"name": HOSTILE}),
        (page_paths.alert(HOSTILE), "/alert", {"key": HOSTILE}),
        (page_paths.partition(HOSTILE, 3), "/partition", {"topic": HOSTILE, "partition": "3"}),
    ],
)
def test_an_address_keeps_any_name(path, page, query):
    parts = urlsplit(path)
    assert (parts.path, parts.fragment) == (page, "")
    assert {name: values[0] for name, values in parse_qs(parts.query).items()} == query


def test_an_address_is_of_one_cluster():
    assert page_paths.within("/readers", "e&u") == "/readers?cluster=e%26u"
    assert page_paths.within("/pipeline?name=a", "eu") == "/pipeline?name=a&cluster=eu"
    assert page_paths.within("/pipeline?name=a&cluster=us", "eu") == "/pipeline?name=a&cluster=us"
    assert page_paths.within("/readers", "") == "/readers"
    assert page_paths.within(page_paths.CLUSTERS, "eu") == page_paths.CLUSTERS
