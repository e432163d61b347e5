"""The bytes of Flink's operator states and what its sinks write into them: cases that the recordings do not have."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pyarrow as pa
import pytest

from indoubt.collector.records.formats.flink_metadata import operator_state
from indoubt.collector.records.formats.flink_metadata.big_endian import BigEndianReader
from indoubt.collector.records.formats.flink_metadata.commit_requests import CommitState
from indoubt.collector.records.formats.flink_metadata.kafka_sink_states import read_writer_state
from indoubt.collector.records.formats.flink_metadata.operator_state import read_elements
from indoubt.collector.records.formats.flink_metadata.sink_states import read_requests
from indoubt.collector.records.formats.flink_records import Committable
from indoubt.lifecycle.errors import MalformedRecord, UnknownVersion

PLAIN, COMPRESSED = struct.pack(">ib", 6, 0), struct.pack(">ib", 6, 1)
STREAM_HEAD = b"\xff\6\0\0sNaPpY"
END_OF_INPUT = 2**63 - 1


def chunk(data: bytes, kind: int = 0) -> bytes:
    """Return a chunk of Snappy's framing format: kind 0 compressed, 1 plain, 0x80 and more without data."""
    body = bytes(4) + (pa.Codec("snappy").compress(data, asbytes=True) if kind == 0 else data)
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def element(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def read(state: bytes, offsets: Sequence[int]) -> list[bytes]:
    found = read_elements(BigEndianReader(state, "a state"), offsets)
    return [each.data[each.at : each.end] for each in found]


def test_elements_are_read_at_their_offsets() -> None:
    for head in (PLAIN, struct.pack(">i", 5)):
        state = head + b"names and serializers" + element(b"one") + element(b"") + element(b"three")
        at = len(head) + 21
        assert read(state, [at, at + 7, at + 11]) == [b"one", b"", b"three"]


def test_compressed_elements_begin_a_chunk_and_may_take_several() -> None:
    large = random.Random(1).randbytes(100_000) + bytes(100_000)
    stored = element(large)
    first = chunk(element(b"one"))
    second = b"".join(chunk(stored[at : at + 65_536], kind=at // 65_536 % 2) for at in range(0, len(stored), 65_536))
    skipped = chunk(b"padding", kind=0xFE)
    at = len(COMPRESSED) + len(STREAM_HEAD)
    state = COMPRESSED + STREAM_HEAD + first + skipped + second
    assert read(state, [at, at + len(first)]) == [b"one", large]


@pytest.mark.parametrize(
    ("state", "offsets", "error"),
    [
        (struct.pack(">i", 4), [4], "version of the operator states is 4; this program knows 5 and 6"),
        (PLAIN + element(b"one"), [4], "begins at byte 4, outside 5 to 12"),
        (PLAIN + element(b"one"), [13], "begins at byte 13, outside 5 to 12"),
        (PLAIN + element(b"one"), [-1], "begins at byte -1, outside 5 to 12"),
        (PLAIN + element(b"one"), [5, 5], "begins at byte 5, outside 12 to 12"),
        (PLAIN + struct.pack(">i", -1), [5], "byte 9: an element has -1 bytes, and 0 are left"),
        (PLAIN + struct.pack(">i", 2**31 - 1), [5], "byte 9: an element has 2147483647 bytes, and 0 are left"),
        (COMPRESSED + chunk(element(b"one"))[:-1], [5], "a chunk has 13 bytes, and 12 are left"),
        (COMPRESSED + chunk(element(b"one")[:5]), [5], "a chunk's kind has 1 bytes, and 0 are left"),
        (COMPRESSED + chunk(b"", kind=2), [5], "a chunk has the kind 2, which is unknown"),
        (COMPRESSED + chunk(struct.pack(">i", -2)), [5], "an element has -2 bytes, not 0 to 16777216"),
        (COMPRESSED + chunk(struct.pack(">i", 2**30)), [5], "an element has 1073741824 bytes, not 0 to 16777216"),
        (COMPRESSED + b"\0\7\0\0" + bytes(4) + b"\xff\xff\7", [5], "more than 65536 bytes uncompressed"),
        (COMPRESSED + b"\0\7\0\0" + bytes(4) + b"\x80\x80\4", [5], "a chunk cannot be decompressed"),
    ],
)
def test_wrong_states_are_refused(state: bytes, offsets: list[int], error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        read(state, offsets)


def test_a_compressed_element_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_state, "ELEMENT_BYTES_LIMIT", 1000)
    assert read(COMPRESSED + chunk(element(bytes(1000))), [5]) == [bytes(1000)]
    with pytest.raises(MalformedRecord, match="an element has 1001 bytes, not 0 to 1000"):
        read(COMPRESSED + chunk(element(bytes(1001))), [5])


def utf(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">H", len(raw)) + raw


def versioned(version: int, data: bytes) -> bytes:
    return struct.pack(">ii", version, len(data)) + data


def versioned_list(version: int, items: Sequence[bytes]) -> bytes:
    return struct.pack(">ii", version, len(items)) + b"".join(struct.pack(">i", len(item)) + item for item in items)


def committable(id_: str = "orders-0-1", *, epoch: int = 0, producer_id: int = 7, version: int = 1) -> bytes:
    return versioned(version, struct.pack(">hq", epoch, producer_id) + utf(id_))


def request(stored: bytes, state: int = 0) -> bytes:
    return stored + struct.pack(">ii", 0, state)


def collector(*requests: bytes, checkpoint_id: int = 3, versions: tuple[int, int, int, int] = (2, 1, 2, 0)) -> bytes:
    """Return a committable collector; ``versions``: its own, a checkpoint's, a writer's, a request's."""
    own, of_checkpoint, of_writer, of_request = versions
    writer = (struct.pack(">i", 1) if of_writer >= 1 else b"") + versioned_list(of_request, requests)
    writer += struct.pack(">ii" if of_writer >= 2 else ">iii", *([0] * (2 if of_writer >= 2 else 3)))
    checkpoint = struct.pack(">q", checkpoint_id) + (struct.pack(">i", 2) if of_checkpoint >= 1 else b"")
    checkpoint += versioned_list(of_writer, [writer])
    return versioned(own, struct.pack(">I", 0xB91F252C) + versioned_list(of_checkpoint, [checkpoint]))


def committables(stored: bytes) -> list[Committable]:
    found = []
    for each in read_requests(BigEndianReader(stored, "a state")):
        if each.why is not None:
            raise each.why
        assert isinstance(each.found, Committable)
        found.append(each.found)
    return found


@pytest.mark.parametrize("versions", [(2, 0, 0, 0), (2, 1, 1, 0), (2, 1, 2, 0)])
def test_committables_in_each_layout(versions: tuple[int, int, int, int]) -> None:
    stored = collector(request(committable("wörter-\u20ac", epoch=32767)), versions=versions)
    assert committables(stored) == [("wörter-\u20ac", 7, 32767)]
    assert [each.request.checkpoint_id for each in read_requests(BigEndianReader(stored, "a state"))] == [3]


@pytest.mark.parametrize("versions", [(1, 1, 2, 0), (3, 1, 2, 0), (2, 2, 2, 0), (2, 1, 3, 0), (2, 1, 2, 1)])
def test_an_unknown_layout_of_committables_is_refused(versions: tuple[int, int, int, int]) -> None:
    with pytest.raises(UnknownVersion, match=r"^a state, byte \d+: the version of .* this program knows"):
        committables(collector(request(committable()), versions=versions))


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        (committable(version=2), "the version of a committable is 2; this program knows 1"),
        (committable(epoch=-1), "no committable of the Kafka connector"),
        (committable(producer_id=-1), "no committable of the Kafka connector"),
        (committable(""), "no committable of the Kafka connector"),
        (versioned(1, committable()[8:] + b"\0"), "a committable has 1 bytes too many"),
        (versioned(1, struct.pack(">hqH", 0, 7, 1) + b"\xff"), "the transactional id is not modified UTF-8"),
        (versioned(1, struct.pack(">hqH", 0, 7, 3) + b"\xed\xa0\x80"), "the transactional id is not modified UTF-8"),
    ],
)
def test_what_is_no_committable_of_kafka_is_refused(stored: bytes, error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        committables(collector(request(stored)))


def test_only_what_is_pending_up_to_the_checkpoint_is_to_be_committed() -> None:
    states = [request(committable(f"orders-0-{state.value}"), state.value) for state in CommitState]
    last, end = (
        collector(request(committable(id_)), checkpoint_id=n) for id_, n in (("last", 4), ("end", END_OF_INPUT))
    )
    found = [r for each in (collector(*states), last, end) for r in read_requests(BigEndianReader(each, "a state"))]
    pending = [each.found for each in found if each.request.is_to_be_committed(3)]
    assert pending == [("orders-0-0", 7, 0), ("orders-0-1", 7, 0)]
    with pytest.raises(MalformedRecord, match="a commit request has the state 4, which is unknown"):
        committables(collector(request(committable(), 4)))


def test_modified_utf_8_has_nul_in_two_bytes_and_pairs_of_surrogates() -> None:
    raw = b"a" + b"\xc0\x80" + b"\xed\xa0\xbd\xed\xba\x80"
    stored = versioned(1, struct.pack(">hqH", 0, 7, len(raw)) + raw)
    (found,) = committables(collector(request(stored)))
    assert found.transaction == "a\0\U0001f680"


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        (versioned(3, utf("orders")), "the version of the writer's state is 3; this program knows 1 and 2"),
        (versioned(1, utf("orders") + b"\0"), "the writer's state has 1 bytes too many"),
        (versioned(2, utf("orders") + struct.pack(">iiii", 0, 2, 2, 0)), "the ownership is 2, which is unknown"),
        (versioned(2, utf("orders") + struct.pack(">iiii", 0, 2, 1, 2**30)), "prepared transactions is 1073741824"),
        (versioned(1, utf("orders")) + b"\0", "the writer's state has 1 bytes too many"),
    ],
)
def test_wrong_states_of_writers_are_refused(stored: bytes, error: str) -> None:
    with pytest.raises(MalformedRecord, match=error):
        read_writer_state(BigEndianReader(stored, "a state"))
