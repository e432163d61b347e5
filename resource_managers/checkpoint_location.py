"""Where a directory lies, of checkpoints or of a sink's files: a path or a URI, read the same way by pipeline and collector.

Spark reads such a text by Hadoop's rules, which take a path without a scheme for one on the cluster's default file system. So
the pipeline hands Spark ``for_spark``: what was read here, with its scheme.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from indoubt.lifecycle.errors import IndoubtError, SettingsError, Unreachable

if TYPE_CHECKING:
    from pyarrow import fs

LOCAL = "file"
S3 = ("s3", "s3a")
OTHERS = ("hdfs", "viewfs", "gs", "abfs", "abfss")
SCHEMES = (LOCAL, *S3, *OTHERS)
CHECKPOINTS = "checkpoint directory"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_HADOOP = "spark.hadoop.fs.s3a."
_PASSING = re.compile(
    r"NETWORK_CONNECTION|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING|REQUEST_TIMEOUT|INTERNAL_FAILURE|HTTP status (429|5\d\d)"
)
"""What an object store's client says of a failure that may be over at the next try; of an answer without a body its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLocation:
    """One directory. ``uri`` names it, however it was spelled; ``path`` is its path on this machine, empty elsewhere."""

    uri: str
    for_spark: str
    path: str
    options: str = ""
    """What stands behind a ``?`` in the URI: pyarrow's options, which Spark does not read."""
    s3_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark's properties, of which spark.hadoop.fs.s3a.* say how to reach the store; they come before the environment."""
    what: str = CHECKPOINTS
    """What it is a directory of, for messages."""

    @classmethod
    def read(
        cls, text: str, spark_properties: Mapping[str, str] | None = None, *, what: str = CHECKPOINTS
    ) -> CheckpointLocation:
        """Return the location that a path or URI names. Raises SettingsError that says what it takes."""
        scheme, rest = _scheme_of(text)
        if not scheme:
            return cls._local(os.path.abspath(rest), what)
        if scheme == LOCAL:
            return cls._local(_local_path(text, rest, what), what)
        if scheme not in SCHEMES or not rest.startswith("//"):
            raise SettingsError(
                f"{what} {text!r} is not understood: give a path, or a URI that begins with "
                f"{', '.join(f'{known}://' for known in SCHEMES)}; a path with a colon in its first part as ./{text}"
            )
        place, _, options = rest.partition("?")
        authority, _, path = place[2:].partition("/")
        parts = [unquote(part) for part in path.split("/") if part]
        if scheme in S3 and not (authority and parts):
            raise SettingsError(f"{what} {text!r} needs a bucket and a path: {scheme}://BUCKET/PATH")
        place = "/".join([authority, *parts])
        return cls(
            uri=f"{'s3' if scheme in S3 else scheme}://{place}",
            for_spark=f"{scheme}://{place}",
            path="",
            options=options,
            s3_properties=dict(spark_properties or {}),
            what=what,
        )

    @classmethod
    def _local(cls, path: str, what: str) -> CheckpointLocation:
        return cls(uri=f"file://{path}", for_spark=f"file://{path}", path=path, what=what)

    def filesystem(self) -> tuple[fs.FileSystem, str]:
        """Return pyarrow's filesystem and the path on it. Raises SettingsError when it cannot be opened, Unreachable."""
        # Imported here: who asks for no directory elsewhere loads none of the cloud libraries.
        import pyarrow as pa
        from pyarrow import fs

        if self.path:
            return fs.LocalFileSystem(), self.path
        scheme, _, place = self.uri.partition("://")
        options = f"?{self.options}" if self.options else ""
        try:
            if scheme == "s3" and not options:
                return _s3(place.partition("/")[0], self.s3_properties), place
            filesystem, path = fs.FileSystem.from_uri(f"{scheme}://{place}{options}")
        except (OSError, pa.ArrowException) as error:
            raise self.refusal(error) from None
        return filesystem, path.rstrip("/")

    def refusal(self, error: Exception) -> IndoubtError:
        """Return what to raise for a filesystem's error: Unreachable when the next try may do, else SettingsError."""
        cause = (str(error).splitlines() or [type(error).__name__])[0]
        if is_passing(cause):
            return Unreachable(f"{self.what} {self.for_spark} cannot be reached now: {cause}")
        return SettingsError(
            f"{self.what} {self.for_spark} cannot be opened: {cause}. What its storage needs (a region, "
            "credentials, a Hadoop client's libraries) is said in docs/settings.md"
        )


def is_passing(cause: str) -> bool:
    """Say whether what a storage's client says may be over at the next try."""
    return _PASSING.search(cause) is not None


def _scheme_of(text: str) -> tuple[str, str]:
    """Return (scheme, rest); no scheme for a path. As Hadoop has it, only a colon before the first slash ends a scheme."""
    match = _SCHEME.fullmatch(text)
    if match is None or "/" in match["scheme"]:
        return "", text
    return match["scheme"].lower(), match["rest"]


def _local_path(text: str, rest: str, what: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise SettingsError(
                f"{what} {text!r} names a host, {host!r}, and a file lies on this machine: write "
                f"file:///{host}/{path} for the path /{host}/{path}"
            )
        rest = slash + path
    if not rest.startswith("/"):
        raise SettingsError(f"{what} {text!r} needs the whole path: file:///PATH, or the path alone")
    return os.path.abspath(unquote(rest).rstrip("/") or "/")


def _s3(bucket: str, properties: Mapping[str, str]) -> fs.FileSystem:
    from pyarrow import fs

    given = {name.removeprefix(_HADOOP): value for name, value in properties.items() if name.startswith(_HADOOP)}
    # A small file is then one request, where it would be a multipart upload.
    options: dict[str, Any] = {"allow_delayed_open": True}
    endpoint = given.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        options["endpoint_override"] = endpoint
        if "://" not in endpoint:
            options["scheme"] = "http" if given.get("connection.ssl.enabled", "").lower() == "false" else "https"
    region = given.get("endpoint.region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    if region or not endpoint:
        options["region"] = region or fs.resolve_s3_region(bucket)
    if given.get("access.key"):
        options |= {"access_key": given["access.key"], "secret_key": given.get("secret.key", "")}
        if given.get("session.token"):
            options["session_token"] = given["session.token"]
    return fs.S3FileSystem(**options)
