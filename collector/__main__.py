"""``python -m indoubt.collector``: the collector itself, or a command for a running one.

Each loads only what it needs: a command that would load the collector first would answer a second and a half later.
"""

from __future__ import annotations

import logging
import os
import sys

from indoubt.lifecycle.version import VERSION


def main() -> int:
    """Do what the first argument says, ``serve`` unless it is a command; return the exit code."""
    arguments = sys.argv[1:]
    first = arguments[0] if arguments else "serve"
    if first == "--version":
        print(f"indoubt {VERSION}")
        return 0
    if first == "token":
        from indoubt.collector.serve.cli import tokens

        return tokens.main(arguments[1:])
    if first != "serve" and not first.startswith("-"):
        from indoubt.collector.serve.cli import main as command_line

        if first in command_line.COMMANDS:
            return command_line.main(arguments)
    from indoubt.collector import start

    code = start.run(arguments[1:] if arguments[:1] == ["serve"] else arguments)
    # All is stopped and closed. A client's thread that still waits for a broker holds objects of DuckDB's, which would be told as
    # leaked at the interpreter's own end.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
