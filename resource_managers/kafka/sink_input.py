"""What the sink takes: the columns of its rows, and the properties of its producer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from indoubt.lifecycle.errors import SettingsError
from indoubt.resource_managers.kafka.compression import Codec, codec_named
from indoubt.resource_managers.record_parts import are_headers

HEADERS = "headers"
_COLUMNS = ("key", "value")
_TEXTS = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)
_BATCH_BYTES = 990_000
"""Brokers take 1,048,588 bytes unless told otherwise; each batch and request costs them and us the same, whatever its size."""
_RECORD_BYTES = 1_000_000
_ONLY = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "partitioner": ("murmur2_random",),
}
"""Properties of librdkafka that have one value here."""
_NUMBERS = ("batch.size", "message.max.bytes")
_CODEC = ("compression.type", "compression.codec")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerProperties:
    """What may be set of the way rows are sent, under librdkafka's names."""

    batch_bytes: int
    record_bytes: int
    codec: Codec

    @classmethod
    def read(cls, properties: Mapping[str, str]) -> Self:
        """Return them with their defaults. Raises SettingsError for one that is not taken."""
        known = (*_ONLY, *_NUMBERS, *_CODEC)
        for name, value in properties.items():
            if name not in known:
                raise SettingsError(
                    f"producer property {name!r} is not one that the sink takes ({', '.join(known)}): leave it out; a property "
                    "of the connection goes into the file of kafka_properties"
                )
            if name in _ONLY and value.lower() not in _ONLY[name]:
                raise SettingsError(
                    f"producer property {name} is {value!r}; the sink takes {_ONLY[name][0]}: leave it out"
                )
            if name in _NUMBERS and not (value.isdigit() and int(value) > 0):
                raise SettingsError(f"producer property {name} is {value!r}; it takes a whole number above 0")
        named = [properties[name] for name in _CODEC if name in properties]
        return cls(
            batch_bytes=int(properties.get("batch.size", _BATCH_BYTES)),
            record_bytes=int(properties.get("message.max.bytes", _RECORD_BYTES)),
            codec=codec_named(named[0] if named else "none"),
        )


def check_columns(columns: Sequence[tuple[str, pa.DataType]]) -> frozenset[str]:
    """Return those of these columns that go to a topic: ``value`` and, where they are, ``key`` and ``headers``.

    Other columns belong to other sinks, and so do ``headers`` that are not lists of structs of ``key`` and ``value``.
    Raises SettingsError when ``value`` is missing or a type is wrong.
    """
    kinds = {name: kind for name, kind in columns if name in _COLUMNS}
    if "value" not in kinds:
        raise SettingsError(
            f"the Kafka sink takes the columns key (optional) and value, not {[name for name, _ in columns]}"
        )
    for name, kind in kinds.items():
        if not any(is_kind(kind) for is_kind in _TEXTS):
            raise SettingsError(f"column {name!r} of the Kafka sink is string or binary, not {kind}: cast it before")
    return frozenset(kinds) | {name for name, kind in columns if name == HEADERS and are_headers(kind)}
