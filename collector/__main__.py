"""``indoubt collector``, as a process: ``python -m indoubt.collector``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from indoubt.collector import start


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the collector until SIGINT or SIGTERM, and end the process with its exit code."""
    code = start.run(arguments)
    # All is stopped and closed. A client's thread that still waits for a broker holds objects of DuckDB's, which would be told as
    # leaked at the interpreter's own end.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
