"""How a sink's files are written and its storage is reached: one value that travels to the tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from indoubt.lifecycle.errors import SettingsError

PARQUET, JSON_LINES = "parquet", "jsonl"
FORMATS = (PARQUET, JSON_LINES)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesAccess:
    """Format and partition columns of new files, and Spark's properties, of which spark.hadoop.fs.s3a.* reach a store."""

    format: str = PARQUET
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise SettingsError(f"files_format is {self.format!r}; it takes {' or '.join(FORMATS)}")
        for column in self.partition_by:
            if column.startswith(("_", ".")) or not column.replace("_", "").replace("-", "").isalnum():
                raise SettingsError(
                    f"files_partition_by names {column!r}: readers take a directory for a partition when its column has "
                    "letters, digits, '-' and '_' only, and begins with none of the last"
                )
        if len(set(self.partition_by)) < len(self.partition_by):
            raise SettingsError(f"files_partition_by names a column twice: {', '.join(self.partition_by)}")

    @classmethod
    def read(cls, format_: str, partition_by: str, properties: Mapping[str, str]) -> Self:
        """Return what the settings say; ``partition_by`` is comma separated. Raises SettingsError."""
        columns = tuple(filter(None, (column.strip() for column in partition_by.split(","))))
        stores = {name: value for name, value in properties.items() if name.startswith("spark.hadoop.fs.")}
        return cls(format=format_, partition_by=columns, properties=stores)

    def to_json(self) -> str:
        """Return it as text: it travels as a Spark option (keys of a store included: never log it)."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what ``to_json`` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "partition_by": tuple(fields["partition_by"])})
