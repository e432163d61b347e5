"""What a database's answer means to the protocol, whichever driver gave it.

ResourceManagerError
├── Unreachable (lifecycle.errors)   no answer, or the connection broke: what was asked may or may not be done
├── NoSuchBranch                     the server has no prepared branch of that name
├── BranchBusy                       another session is finishing that branch, or has it attached still
├── LockTimeout                      a row stayed locked by another transaction for as long as we wait
└── DuplicateKey                     a row of that key is there already
"""

from __future__ import annotations

import re

from indoubt.lifecycle.errors import ResourceManagerError, SettingsError


class NoSuchBranch(ResourceManagerError):
    """The server has no prepared branch of that name: committed, rolled back, or never there."""


class BranchBusy(ResourceManagerError):
    """The branch is there and cannot be finished at this moment: the same order may be given again."""


class LockTimeout(ResourceManagerError):
    """A row stayed locked by another transaction for as long as we wait."""


class DuplicateKey(ResourceManagerError):
    """A row of that key is there already."""


def outside_its_errors(error: Exception, where: str) -> ResourceManagerError | SettingsError:
    """Return what it means that a driver raised something else than its own errors; ``where``: which database, and for what."""
    package = re.search(r"'([\w-]+)' package is required", str(error))
    if package is not None:
        return SettingsError(f"{where}: {error}. Run: pip install {package[1]}")
    return ResourceManagerError(f"{where}: the driver failed: {type(error).__name__}: {error}")
