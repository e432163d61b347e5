"""Flink's sinks that write tables, each with its job and a store of its own: what a reader sees in it, and what nobody committed.

An independent reader: what a directory lists, boto3, PyIceberg.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow.parquet

from demo.object_store import BUCKET, KEY, REGION
from demo.ports import free_port
from tests.integration import flink_files_job, flink_iceberg_job
from tests.integration.flink_files_job import FilesJob
from tests.integration.flink_iceberg_job import CATALOG, TABLE, IcebergJob, sqlite
from tests.integration.flink_orders_job import PARALLELISM, JobSources, OrdersJob

FLINK = {"execution.checkpointing.min-pause": "1000ms"}
"""On a busy machine too, checkpoint 3 has the orders of a second."""

T = TypeVar("T")


class Sink(Protocol):
    """A job that writes to a store of its own; ``commits``: how many checkpoint 3 announces, ``environment``: the collector's."""

    sources: JobSources
    commits: int
    job: OrdersJob

    @property
    def environment(self) -> Mapping[str, str]: ...

    def __init__(self, directory: Path, stack: ExitStack) -> None: ...

    def visible(self) -> Counter[str]:
        """Return every order that a reader sees, and how often."""

    def hidden(self) -> Counter[str]:
        """Return the orders of checkpoint 3 that are written and that no reader sees."""

    def expire(self) -> None:
        """Remove what nobody committed, as the store does after its delay."""


class LocalFiles:
    """The FileSink, to a directory."""

    sources, commits = flink_files_job.SOURCES, PARALLELISM
    environment: Mapping[str, str] = {}

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._files = directory / "files"
        self.job: OrdersJob = FilesJob(f"file:{self._files}", directory / "checkpoints", directory / "flink.log", FLINK)

    def visible(self) -> Counter[str]:
        return _lines(path.read_bytes() for path in self._files.iterdir() if not path.name.startswith("."))

    def hidden(self) -> Counter[str]:
        return _lines(path.read_bytes() for path in _closed({path.name: path for path in self._files.glob(".*")}))

    def expire(self) -> None:
        for path in self._files.glob(".*"):
            path.unlink()


class S3Files:
    """The FileSink, to a bucket. Its server runs in this process: no reader is shown the parts of an unfinished upload."""

    sources, commits = flink_files_job.SOURCES, PARALLELISM

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        import boto3
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        port = free_port()
        server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
        server.start()
        stack.callback(server.stop)
        endpoint = f"http://127.0.0.1:{port}"
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": KEY}
        self.environment = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION, **keys}
        self._client = boto3.client(
            "s3", endpoint_url=endpoint, region_name=REGION, aws_access_key_id=KEY, aws_secret_access_key=KEY
        )
        # moto's stores of one process are one: each job has its own bucket.
        self._bucket = f"{BUCKET}-{port}"
        self._client.create_bucket(Bucket=self._bucket)
        self._store().multiparts = _Uploads()
        given = {"endpoint": endpoint, "access-key": KEY, "secret-key": KEY}
        given |= {"path.style.access": "true", "endpoint.region": REGION}
        settings = FLINK | {f"s3.{name}": value for name, value in given.items()}
        checkpoints, log = directory / "checkpoints", directory / "flink.log"
        self.job: OrdersJob = FilesJob(f"s3://{self._bucket}/orders", checkpoints, log, settings)

    def visible(self) -> Counter[str]:
        listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix="orders/").get("Contents", ())
        return _lines(self._client.get_object(Bucket=self._bucket, Key=each["Key"])["Body"].read() for each in listed)

    def hidden(self) -> Counter[str]:
        uploads = _closed({upload.key_name: upload for upload in self._store().multiparts.values()})
        return _lines(b"".join(part.value for _, part in sorted(upload.parts.items())) for upload in uploads)

    def expire(self) -> None:
        for upload in self._client.list_multipart_uploads(Bucket=self._bucket).get("Uploads", ()):
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=upload["Key"], UploadId=upload["UploadId"])

    def _store(self) -> Any:
        from moto.core.models import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self._bucket]


class _Uploads(dict[str, Any]):
    """The store's unfinished uploads: who completes one that was aborted is told so, as by S3; moto itself would answer 500."""

    def __missing__(self, upload: str) -> Any:
        from moto.s3.exceptions import NoSuchUpload

        raise NoSuchUpload(upload)


def _closed(by_name: Mapping[str, T]) -> Iterable[T]:
    """Return what each writer closed at checkpoint 3: the first that is hidden. What it opened since is of no checkpoint."""
    first: dict[str, tuple[int, T]] = {}
    for name, file in by_name.items():
        writer, _, count = name.partition(".inprogress")[0].rpartition("-")
        first[writer] = min(first.get(writer, (int(count), file)), (int(count), file), key=lambda found: found[0])
    return [file for _, file in first.values()]


def _lines(files: Iterable[bytes]) -> Counter[str]:
    return Counter(line for file in files for line in file.decode().splitlines())


class IcebergTable:
    """The IcebergSink, to a table whose catalog is in SQLite."""

    sources, commits = flink_iceberg_job.SOURCES, 1

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        from pyiceberg.catalog import load_catalog

        database, warehouse = directory / "catalog.db", directory / "warehouse"
        given = {"type": "sql", "uri": f"sqlite:///{database}", "warehouse": f"file://{warehouse}"}
        self.environment = {f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name.upper()}": given[name] for name in given}
        self.job: OrdersJob = IcebergJob(
            sqlite(database), warehouse, directory / "checkpoints", directory / "flink.log", FLINK
        )
        self._warehouse = warehouse
        self._catalog = load_catalog(CATALOG, **given)
        stack.callback(self._catalog.close)

    def visible(self) -> Counter[str]:
        return Counter(self._table().scan().to_arrow()["id"].to_pylist())

    def hidden(self) -> Counter[str]:
        unnamed = (path for path in self._unnamed() if path.suffix == ".parquet")
        return Counter(order for path in unnamed for order in pyarrow.parquet.read_table(path)["id"].to_pylist())

    def expire(self) -> None:
        for path in list(self._unnamed()):
            path.unlink()

    def _table(self) -> Any:
        return self._catalog.load_table(TABLE)

    def _unnamed(self) -> Iterator[Path]:
        """Yield the files that neither the table's metadata nor a snapshot names."""
        table = self._table()
        named = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
        for snapshot in table.metadata.snapshots:
            named |= {snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io))}
        named |= set(table.inspect.all_files()["file_path"].to_pylist())
        kept = {_local(name) for name in named}
        return (path for path in self._warehouse.rglob("*") if path.is_file() and path not in kept)


def _local(uri: str) -> Path:
    return Path("/" + uri.removeprefix("file:").lstrip("/"))


SINKS: Mapping[str, type[Sink]] = {"files": LocalFiles, "s3": S3Files, "iceberg": IcebergTable}
