"""Uploads to S3 that a FileSink has not completed, in an S3-compatible store: how they stand, and what is done to them."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from indoubt.collector.observe.flink_file_store import FileStore
from indoubt.collector.records.formats.pending_files import PendingFile, Standing
from indoubt.lifecycle.errors import ResourceManagerError, Unreachable

pytestmark = pytest.mark.integration
BUCKET, CONTENT = "indoubt", b"order 1\n"
LEAST_PART = 5 * 1024 * 1024
"""Of all parts but the last."""


@pytest.fixture
def client(object_store: str) -> Any:
    return boto3.client("s3", region_name="us-east-1")


def begun(client: Any, key: str, *parts: bytes) -> PendingFile:
    """Return a file whose upload has these parts."""
    upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    given = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    answers = [client.upload_part(**given, PartNumber=n, Body=part) for n, part in enumerate(parts, 1)]
    tags = tuple((n, answer["ETag"].strip('"')) for n, answer in enumerate(answers, 1))
    return PendingFile(target=f"s3://{BUCKET}/{key}", size=sum(map(len, parts)), upload=upload, parts=tags)


def read(client: Any, file: PendingFile) -> bytes:
    """Return what anybody reads under the file's name."""
    body: bytes = client.get_object(Bucket=BUCKET, Key=file.target.removeprefix(f"s3://{BUCKET}/"))["Body"].read()
    return body


def test_a_hidden_upload_is_completed_with_its_parts(client: Any) -> None:
    parts = (b"a" * LEAST_PART, CONTENT)
    file, store = begun(client, "made/part-1", *parts), FileStore()
    assert store.look(file).standing is Standing.HIDDEN
    store.make_visible(file)
    assert read(client, file) == b"".join(parts)
    assert store.look(file).standing is Standing.VISIBLE
    with pytest.raises(ResourceManagerError, match="is visible now"):
        store.make_visible(file)


def test_what_the_store_has_otherwise_is_not_completed(client: Any) -> None:
    store = FileStore()
    again = begun(client, "again/part-1", CONTENT)
    given = {"Bucket": BUCKET, "Key": "again/part-1", "UploadId": again.upload}
    client.upload_part(**given, PartNumber=1, Body=b"others\n\n")
    assert store.look(again).standing is Standing.UNCLEAR, "a part was replaced"
    expired = begun(client, "expired/part-1", CONTENT)
    client.abort_multipart_upload(Bucket=BUCKET, Key="expired/part-1", UploadId=expired.upload)
    assert store.look(expired).standing is Standing.MISSING
    taken = begun(client, "taken/part-1", CONTENT)
    client.put_object(Bucket=BUCKET, Key="taken/part-1", Body=b"another")
    assert store.look(taken).standing is Standing.UNCLEAR, "its name is another object's"
    for file in (again, expired, taken):
        with pytest.raises(ResourceManagerError, match="now"):
            store.make_visible(file)
    assert read(client, taken) == b"another"


def test_uploads_in_a_directory_are_listed_and_aborted(client: Any) -> None:
    store = FileStore()
    files = [begun(client, f"left/part-{n}", CONTENT) for n in range(2)]
    begun(client, "left/deeper/part-1", CONTENT)
    found = {each.upload: each for each in store.hidden_in(f"s3://{BUCKET}/left")}
    assert found.keys() == {file.upload for file in files}
    first = found[files[0].upload]
    assert (first.target, first.size) == (files[0].target, None)
    store.remove(first)
    assert store.look(files[0]).standing is Standing.MISSING
    assert [each.upload for each in store.hidden_in(f"s3://{BUCKET}/left")] == [files[1].upload]


def test_a_store_that_does_not_answer_says_nothing(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = begun(client, "away/part-1", CONTENT)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="S3 does not answer: EndpointConnectionError"):
        FileStore().look(file)
