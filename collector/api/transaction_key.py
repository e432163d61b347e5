"""A transaction's key in a path: whatever its owner named it, slashes and line ends too."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class TransactionKey(Convertor[str]):
    """Takes the rest of a path; Starlette's own ``path`` ends at a line end."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the key."""
        return value

    def to_string(self, value: str) -> str:
        """Return the path."""
        return value


NAME = "transaction_key"
register_url_convertor(NAME, TransactionKey())
