"""Directories of files to write into, on this machine and in an S3-compatible store, and readers of their own."""

from __future__ import annotations

import io
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from demo.object_store import BUCKET, KEY, REGION, ObjectStore
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.files.resource_manager import FilesResourceManager
from tests.integration.resource_manager_contract import SinkUnderTest

NOWHERE = {
    "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1",
    "spark.hadoop.fs.s3a.endpoint.region": REGION,
    "spark.hadoop.fs.s3a.access.key": KEY,
    "spark.hadoop.fs.s3a.secret.key": KEY,
}
_numbers = itertools.count()


class FilesSink(SinkUnderTest, ABC):
    """A directory of word counts; readers see what does not begin with an underscore."""

    takes_every_column = True

    def __init__(self, access: FilesAccess | None = None) -> None:
        super().__init__(f"test.{next(_numbers)}")
        self.access = access or FilesAccess()
        self.manager().verify(list(zip(self.rows().schema.names, self.rows().schema.types, strict=True)))

    @property
    @abstractmethod
    def where(self) -> str:
        """Return path or URI."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of all files below the directory, by a client of its own."""

    @abstractmethod
    def content(self, name: str) -> bytes:
        """Return a file's content, by a client of its own."""

    def manager(self) -> FilesResourceManager:
        return FilesResourceManager(self.where, self.access)

    def manager_without_a_server(self) -> FilesResourceManager:
        return FilesResourceManager("s3://bucket/orders", FilesAccess(properties=NOWHERE))

    def manager_of_another_sink(self) -> FilesResourceManager:
        other = FilesResourceManager(f"{self.where}-other", self.access)
        other.verify([("word", pa.string())])
        return other

    def rows(self, *words: str) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {"word": list(words), "count": [1] * len(words)},
            schema=pa.schema([("word", pa.string()), ("count", pa.int64())]),
        )

    def visible(self) -> list[str]:
        seen = [name for name in self.names() if not name.startswith(("_", "."))]
        assert all(name.endswith(".parquet") for name in seen), seen
        return sorted(
            word for name in seen for word in pq.read_table(io.BytesIO(self.content(name)))["word"].to_pylist()
        )

    def prepared(self) -> list[str]:
        ends = [name.removeprefix("_indoubt/branches/") for name in self.names() if name.endswith(".prepared")]
        found = [name.removesuffix(".prepared").rsplit("-", 4) for name in ends]
        return sorted(":".join(parts) for parts in found if parts[0] == self.prefix)

    def left(self) -> list[str]:
        """Return what is there besides rows that readers see, markers and the directory's id."""
        known = ("_indoubt/markers/", "_indoubt/id")
        return [name for name in self.names() if name.startswith(("_", ".")) and not name.startswith(known)]


class LocalFiles(FilesSink):
    """On this machine."""

    def __init__(self, directory: Path, access: FilesAccess | None = None) -> None:
        self.directory = directory / f"orders-{next(_numbers)}"
        super().__init__(access)

    @property
    def where(self) -> str:
        return str(self.directory)

    def managers_by_other_ways(self) -> list[FilesResourceManager]:
        link = self.directory.with_name(f"{self.directory.name}-link")
        link.symlink_to(self.directory)
        return [FilesResourceManager(where) for where in (f"file://{self.directory}", str(link), f"{self.directory}/.")]

    def names(self) -> list[str]:
        return [str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file()]

    def content(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def visible(self) -> list[str]:
        pattern = f"{self.directory}/**/*.parquet"
        if not any(name.endswith(".parquet") for name in self.names()):
            return []
        return sorted(word for (word,) in duckdb.execute("select word from read_parquet($1)", [pattern]).fetchall())


class S3Files(FilesSink):
    """In a store, read by boto3."""

    def __init__(self, store: ObjectStore, **access: Any) -> None:
        self.store, self.path = store, f"orders-{next(_numbers)}"
        super().__init__(FilesAccess(**access, properties=store.spark_properties))

    @property
    def where(self) -> str:
        return f"s3://{BUCKET}/{self.path}"

    def managers_by_other_ways(self) -> list[FilesResourceManager]:
        return [FilesResourceManager(f"s3a://{BUCKET}//{self.path}/", self.access)]

    def names(self) -> list[str]:
        pages = client(self.store).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.path}/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        # pyarrow keeps what would be an empty directory as an object that ends with a slash.
        return [key.removeprefix(f"{self.path}/") for key in keys if not key.endswith("/")]

    def content(self, name: str) -> bytes:
        content: bytes = client(self.store).get_object(Bucket=BUCKET, Key=f"{self.path}/{name}")["Body"].read()
        return content


def client(store: ObjectStore) -> Any:
    """Return boto3's client of a store."""
    endpoint = store.spark_properties["spark.hadoop.fs.s3a.endpoint"]
    return boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=KEY, region_name=REGION
    )


def running_store(directory: Path) -> Iterator[ObjectStore]:
    """Yield a store that runs."""
    with ObjectStore(directory) as store:
        yield store
