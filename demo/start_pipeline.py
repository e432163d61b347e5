"""``python -m demo.start_pipeline URL``: asks the demo to start its stopped pipeline again; the collector's start command."""

from __future__ import annotations

import json
import sys
import urllib.request

LIMIT_S = 10.0


def main() -> int:
    """Ask; return 0 where the pipeline starts."""
    request = urllib.request.Request(f"{sys.argv[1]}/start-pipeline", method="POST", data=b"")
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        said = json.load(answer)
    print(said["message"])
    return 0 if said["accepted"] else 1


if __name__ == "__main__":
    sys.exit(main())
