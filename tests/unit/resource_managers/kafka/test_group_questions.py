"""Where a consumer group's offsets are kept: by the hash of its name, as Java reckons it."""

from __future__ import annotations

import pytest

from indoubt.resource_managers.kafka.group_questions import kept_groups, offsets_partition


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("abc", 96_354 % 50),
        ("", 0),
        ("polygenelubricants", 0),
        ("€", 8_364 % 50),
        ("𝄞", 1_772_394 % 50),
        ("orders-v2", 390_713_756 % 50),
    ],
    ids=["plain", "empty", "the least number has no absolute value", "beyond Latin-1", "two UTF-16 units", "negative"],
)
def test_a_group_is_kept_where_its_name_hashes_to(group: str, partition: int) -> None:
    assert offsets_partition(group, 50) == partition


def test_groups_kept_elsewhere_are_left_out() -> None:
    assert kept_groups(["abc", "abd"], {4}, 50) == {"abc": 4}
    assert kept_groups(["abc", "abd"], {4, 5}, 50) == {"abc": 4, "abd": 5}
