"""Whole Arrow batches into librdkafka without a Python object per record.

confluent-kafka's wheel carries librdkafka as a shared library, whose public C function ``rd_kafka_produce_batch`` takes an
array of messages; numpy fills that array from Arrow's buffers at once. librdkafka keeps all of its care (retries,
idempotence, transactions). With message flags 0 nothing is copied: the buffers must live until the flush is done.
Source: rdkafka.h of librdkafka 2.x.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from resource_managers.fingerprint import binary_view

PARTITION_UNASSIGNED = -1
ERR_QUEUE_FULL = -184
ERR_MSG_SIZE_TOO_LARGE = 10
FULL_PAUSE_S = 0.005
CALL_ROWS = 2_000
"""Rows handed over in one call: so many at most are looked at again after each pause while the queue is full."""

MESSAGE = np.dtype(
    {
        "names": ["err", "topic", "partition", "payload", "length", "key", "key_length", "offset", "private"],
        "formats": ["<i4", "<u8", "<i4", "<u8", "<u8", "<u8", "<u8", "<i8", "<u8"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56, 64],
        "itemsize": 72,
    }
)
"""``rd_kafka_message_t`` on 64-bit machines."""

_RK_OFFSET = 2 * ctypes.sizeof(ctypes.c_void_p)
"""confluent-kafka's Producer object: PyObject header, then the ``rd_kafka_t *``; its name is checked before use."""


class BatchPathUnavailable(Exception):
    """librdkafka cannot be reached this way here; the ordinary client must serve."""


@functools.cache
def _library() -> ctypes.CDLL:
    if ctypes.sizeof(ctypes.c_void_p) != 8 or MESSAGE.itemsize != 72:
        raise BatchPathUnavailable("not a 64-bit machine")
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError as error:
        raise BatchPathUnavailable(f"/proc/self/maps cannot be read: {error.strerror}") from None
    paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "librdkafka" in line}
    if len(paths) != 1:
        raise BatchPathUnavailable(f"{len(paths)} librdkafka libraries are loaded, not one")
    library = ctypes.CDLL(paths.pop())
    library.rd_kafka_version.restype = ctypes.c_int
    if library.rd_kafka_version() >> 24 != 2:
        raise BatchPathUnavailable(f"librdkafka {library.rd_kafka_version():#x} is not version 2")
    for name in ("name", "topic_new", "topic_destroy", "produce_batch", "fatal_error"):
        if not hasattr(library, f"rd_kafka_{name}"):
            raise BatchPathUnavailable(f"librdkafka exports no rd_kafka_{name}")
    pointer = ctypes.c_void_p
    library.rd_kafka_name.restype, library.rd_kafka_name.argtypes = ctypes.c_char_p, [pointer]
    library.rd_kafka_topic_new.restype = pointer
    library.rd_kafka_topic_new.argtypes = [pointer, ctypes.c_char_p, pointer]
    library.rd_kafka_topic_destroy.restype, library.rd_kafka_topic_destroy.argtypes = None, [pointer]
    library.rd_kafka_produce_batch.restype = ctypes.c_int
    library.rd_kafka_produce_batch.argtypes = [pointer, ctypes.c_int32, ctypes.c_int, pointer, ctypes.c_int]
    library.rd_kafka_fatal_error.restype = ctypes.c_int
    library.rd_kafka_fatal_error.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t]
    return library


class BatchProducer:
    """Queues Arrow batches on a Producer. ``keep`` holds what librdkafka still points to: clear it after a flush.

    Raises BatchPathUnavailable when the producer's ``rd_kafka_t`` cannot be found for certain.
    """

    def __init__(self, producer: Producer, client_id: str, topic: str) -> None:
        self._library = _library()
        handle = ctypes.c_void_p.from_address(id(producer) + _RK_OFFSET).value
        name = _name_at(self._library, handle)
        if handle is None or not name.startswith(f"{client_id}#producer-"):
            raise BatchPathUnavailable("confluent-kafka's Producer is laid out differently here")
        self._topic = self._library.rd_kafka_topic_new(handle, topic.encode(), None)
        if not self._topic:
            raise BatchPathUnavailable(f"librdkafka gave no handle for topic {topic!r}")
        self._producer, self._handle = producer, handle
        # librdkafka copies what it takes: one piece of memory serves every call, and stays in the cache.
        self._messages = np.zeros(CALL_ROWS, MESSAGE)
        self.keep: list[Any] = []

    def produce(self, key: pa.Array | None, value: pa.Array, partition: int = PARTITION_UNASSIGNED) -> int:
        """Queue every row, waiting while the queue is full; return librdkafka's error code of a refused row, or 0.

        With a ``partition`` librdkafka asks its partitioner about no row.
        """
        self.keep += [key, value]
        for first in range(0, len(value), CALL_ROWS):
            rows = min(CALL_ROWS, len(value) - first)
            messages = self._messages[:rows]
            messages["err"] = 0
            messages["payload"], messages["length"] = _pointers(value.slice(first, rows))
            messages["key"], messages["key_length"] = _pointers(key.slice(first, rows)) if key is not None else (0, 0)
            code = self._queue(messages, partition)
            if code:
                return code
        return 0

    def _queue(self, messages: Any, partition: int) -> int:
        while True:
            address = messages.ctypes.data
            taken = self._library.rd_kafka_produce_batch(self._topic, partition, 0, address, len(messages))
            if taken == len(messages):
                return 0
            left = messages[messages["err"] != 0]
            refused = left[left["err"] != ERR_QUEUE_FULL]
            if len(refused):
                return int(refused["err"][0])
            messages = left
            messages["err"] = 0
            # Nothing announces room in the queue: only errors are reported.
            self._producer.poll(FULL_PAUSE_S)

    def fatal_error(self) -> str:
        """Return why this producer can deliver nothing more, or an empty text while it can."""
        text = ctypes.create_string_buffer(512)
        return (
            text.value.decode(errors="replace") if self._library.rd_kafka_fatal_error(self._handle, text, 512) else ""
        )

    def close(self) -> None:
        """Give the topic handle back."""
        if self._topic:
            self._library.rd_kafka_topic_destroy(self._topic)
            self._topic = None


def _pointers(column: pa.Array) -> tuple[Any, Any]:
    """Return (address, length) per row; a null row has address 0, an empty one a real address."""
    starts, lengths, data = binary_view(column)
    base = data.address if data is not None and data.size else ctypes.addressof(_EMPTY)
    addresses = starts.astype(np.uint64) + np.uint64(base)
    if data is None or not data.size:
        addresses[:] = base
    if column.null_count:
        addresses[np.asarray(column.is_null())] = 0
    return addresses, lengths


_EMPTY = ctypes.create_string_buffer(8)


def _name_at(library: ctypes.CDLL, handle: int | None) -> str:
    # A wrong pointer must not be followed: it is only read when it points into this process's heap or mappings.
    if not handle or not _is_mapped(handle):
        return ""
    return (library.rd_kafka_name(handle) or b"").decode(errors="replace")


def _is_mapped(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, _, end = line.split(maxsplit=1)[0].partition("-")
        if int(start, 16) <= address < int(end, 16):
            return True
    return False
