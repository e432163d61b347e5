"""Every live region by its name; a page shows one with app.dialogs.pressed.show_region."""

from __future__ import annotations

from collections.abc import Mapping

from app.regions.picture import Render
from app.screens import frame, overview, pending, timeouts

REGIONS: Mapping[str, Render] = {
    "frame": frame.render,
    "overview": overview.render,
    "pending": pending.render,
    "timeouts": timeouts.render,
}
