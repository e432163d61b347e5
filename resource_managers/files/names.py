"""Names below a sink's directory: what readers see, and what they skip.

``_indoubt/branches/PREFIX-BATCH-ATTEMPT-SLOT-NONCE.*`` is all that one task has there: ``.open`` while it writes, ``.0``, ``.1`` …
its rows, ``.prepared`` its manifest. Spark and pyarrow skip names that begin with an underscore; DuckDB's ``**/*.parquet`` does
not, so nothing there ends like a file of rows. No colons: Hadoop takes none in a path.
"""

from __future__ import annotations

import re

from indoubt.lifecycle.branch_id import BranchId

HIDDEN = "_indoubt"
BRANCHES = f"{HIDDEN}/branches"
ID = f"{HIDDEN}/id"
"""Holds what the directory goes by, however it is spelled; made once, by the first start."""
OPEN, PREPARED = "open", "prepared"
_PARTS = re.compile(
    r"(?P<prefix>[^/]+)-(?P<batch>\d+)-(?P<attempt>\d+)-(?P<slot>\d+)-(?P<nonce>[0-9a-f]{8})\.(?P<what>.+)", re.ASCII
)


def stem(branch: BranchId) -> str:
    """Return the branch's name as part of a file's."""
    return f"{branch.prefix}-{branch.batch}-{branch.attempt}-{branch.slot}-{branch.nonce}"


def branch_file(branch: BranchId, what: str | int) -> str:
    """Return the name of one of a branch's hidden files."""
    return f"{BRANCHES}/{stem(branch)}.{what}"


def read_branch_file(base_name: str) -> tuple[BranchId, str] | None:
    """Return the branch that a hidden file belongs to and what it is, None for a name that is not ours."""
    match = _PARTS.fullmatch(base_name)
    if match is None:
        return None
    branch = BranchId.parse(":".join(match[part] for part in ("prefix", "batch", "attempt", "slot", "nonce")))
    return (branch, match["what"]) if branch is not None else None


def visible_file(branch: BranchId, number: int, partition: str, suffix: str) -> str:
    """Return where readers find a file of rows; ``partition`` is its directory, empty for none."""
    name = f"part-{stem(branch)}-{number}.{suffix}"
    return f"{partition}/{name}" if partition else name


def is_visible_file(branch: BranchId, number: int, target: str) -> bool:
    """Say whether a name can be one that ``visible_file`` returns."""
    *folders, name = target.split("/")
    begin = f"part-{stem(branch)}-{number}."
    return name.startswith(begin) and name[len(begin) :].isalnum() and all("=" in folder for folder in folders)


def marker_folder(prefix: str, slot: int) -> str:
    """Return where the markers of a slot are."""
    return f"{HIDDEN}/markers/{prefix}/{slot}"
