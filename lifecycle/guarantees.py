"""What a sink promises about each row."""

from __future__ import annotations

from enum import Enum

from indoubt.lifecycle.errors import SettingsError


class DeliveryGuarantee(Enum):
    """Names as in Flink's DeliveryGuarantee."""

    EXACTLY_ONCE = "exactly_once"
    """Two-phase commit: no row lost, none twice, none visible before its checkpoint."""
    AT_LEAST_ONCE = "at_least_once"
    """Flushed and checked before the checkpoint, no transaction: no row lost, some twice after a failure."""
    NONE = "none"
    """Sent and not waited for: rows may be lost or doubled after a failure."""

    @classmethod
    def parse(cls, text: str) -> DeliveryGuarantee:
        """Return the guarantee of that name. Raises SettingsError that lists the names."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            names = ", ".join(g.value for g in cls)
            raise SettingsError(f"delivery_guarantee is {text!r}; it takes one of: {names}") from None
