"""A process of its own that writes into a database, tells its handle, and waits for a line, or to be killed.

Standard input: a JSON line with the connection and what to write, then one line for each further step.
"""

from __future__ import annotations

import json
import sys

from indoubt.lifecycle.errors import IndoubtError
from indoubt.resource_managers.database.connection import DatabaseConnection
from tests.integration.database_fixtures import FINGERPRINT, MANAGERS, counts, slot_attempt


def main() -> None:
    """Write; then either wait with the transaction open (the next line makes it prepare), or prepare at once and wait."""
    order = json.loads(sys.stdin.readline())
    connection = DatabaseConnection.from_json(order["connection"])
    manager = MANAGERS[connection.kind](connection, table=order["table"], lock_timeout_s=5.0)
    transaction = manager.begin(
        slot_attempt(order["prefix"], checkpoint_id=order["checkpoint_id"], attempt=order["attempt"])
    )
    transaction.write(counts(**order["rows"]))
    if order["until"] == "open":
        print(json.dumps({"open": transaction.provisional_handle.transaction}), flush=True)
        sys.stdin.readline()
    try:
        print(json.dumps(transaction.prepare(FINGERPRINT).to_json()), flush=True)
    except IndoubtError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
