"""Numbers with the noun that they count."""

from __future__ import annotations


def counted(number: int, singular: str, many: str = "") -> str:
    """Return ``1 transaction`` or ``4,000 transactions``; ``many``: the plural, where it takes more than an s."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"
