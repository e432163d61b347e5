"""An S3-compatible store on loopback (moto's server), which can be made to answer 503 or late.

``python -m demo.object_store PORT FAULT_FILE`` runs one until it is ended; what it holds is in its memory. While the fault file
is there, its text says what requests get: ``503``, or the seconds by which answers are late.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

from pyarrow import fs

from demo.ports import free_port, listens
from demo.prerequisites import JARS, ROOT
from demo.server import Server

BUCKET = "indoubt"
UNAVAILABLE = "503"
REGION = "us-east-1"
KEY = "demo"
"""The store takes any key and any secret."""


class ObjectStore(Server):
    """A store with a bucket; what it holds is gone when it ends."""

    what = "object store"
    jars = JARS / "s3a"
    """What Spark needs to reach it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._fault_file = directory / "fault"

    @property
    def uri(self) -> str:
        """Return the URI of the bucket."""
        return f"s3a://{BUCKET}"

    @property
    def spark_properties(self) -> dict[str, str]:
        """Return what tells Spark, and the pipeline beside it, how to reach the store."""
        given = {"endpoint": self._endpoint, "endpoint.region": REGION, "access.key": KEY, "secret.key": KEY}
        given |= {"path.style.access": "true", "connection.ssl.enabled": "false"}
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items()}

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which pyarrow and boto reach the store."""
        given = {"ENDPOINT_URL": self._endpoint, "ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": KEY, "REGION": REGION}
        return {f"AWS_{name}": value for name, value in given.items()}

    def disturb(self, fault: str) -> None:
        """Have it answer ``503``, or late by so many seconds, until ``heal``."""
        draft = self._fault_file.with_suffix(".draft")
        draft.write_text(fault)
        draft.rename(self._fault_file)

    def heal(self) -> None:
        """Have it answer as it should."""
        self._fault_file.unlink(missing_ok=True)

    @property
    def log_file(self) -> Path:
        """Return its log."""
        return self.directory / "store.log"

    def start(self) -> Self:
        """Start it, and make the bucket."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._run([sys.executable, "-m", "demo.object_store", str(self.port), str(self._fault_file)], cwd=ROOT)
        self.filesystem.create_dir(BUCKET)
        return self

    def stop(self) -> None:
        """End it by SIGKILL: nothing of it is kept."""
        self.kill()

    def _answers(self) -> bool:
        return listens(self.port)

    @property
    def filesystem(self) -> fs.S3FileSystem:
        """Return a filesystem whose paths begin with the bucket."""
        return fs.S3FileSystem(
            endpoint_override=self._endpoint,
            access_key=KEY,
            secret_key=KEY,
            region=REGION,
            allow_bucket_creation=True,
        )

    @property
    def _endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def main() -> None:
    """Serve on this port until the process is ended."""
    # Imported here: only the server needs it, and boto's data costs a second.
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    fault_file = Path(sys.argv[2])
    serve = DomainDispatcherApplication(create_backend_app)

    def disturbed(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            fault = fault_file.read_text()
        except FileNotFoundError:
            fault = ""
        if fault == UNAVAILABLE:
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        if fault:
            # How late it answers is the fault itself, not a wait for a condition.
            time.sleep(float(fault))
        answer: Iterable[bytes] = serve(environ, start_response)
        return answer

    os.environ.setdefault("AWS_ACCESS_KEY_ID", KEY)
    run_simple("127.0.0.1", int(sys.argv[1]), disturbed, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
