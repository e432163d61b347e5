"""The table of markers in PostgreSQL."""

from __future__ import annotations

from resource_managers.database.markers import NAME, PROBE
from resource_managers.database.own_tables import OwnTable

TABLE = OwnTable(
    name=NAME,
    create=(
        """\
create table if not exists indoubt_markers (
    checkpoint_id varchar(64) not null,
    slot integer not null,
    batch bigint not null,
    attempt bigint not null,
    branch varchar(160) not null,
    state varchar(10) not null,
    primary key (checkpoint_id, slot, batch, attempt)
)""",
        "create index if not exists indoubt_markers_branch on indoubt_markers (branch)",
    ),
    probe=PROBE,
)
