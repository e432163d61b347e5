"""One task of a batch as a process of its own, which can be frozen at a named step and woken later.

Standard input: one JSON line with the sink's options, slot, batch and values. Standard output: one JSON line with the
handles that it prepared, or with the error that stopped it.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa

from indoubt.lifecycle.errors import IndoubtError
from indoubt.pipeline.sink.sink_options import SinkOptions
from indoubt.pipeline.sink.slot_writer import SlotWriter


def main() -> None:
    """Write the slot as a Spark task does."""
    order = json.loads(sys.stdin.readline())
    options = SinkOptions.read(order["options"])
    # Made here: the fixtures that make rows elsewhere take a second to import, and a dozen tests start this.
    rows = pa.record_batch({"value": pa.array([value.encode() for value in order["values"]], pa.binary())})
    try:
        writer = SlotWriter(options, slot=order["slot"], batch=order["batch"])
        message = writer.write(iter([rows]))
        print(json.dumps({"handles": [handle.to_json() for handle in message.handles]}), flush=True)
    except IndoubtError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)


if __name__ == "__main__":
    main()
