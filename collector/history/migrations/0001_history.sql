-- History: append-only. Every row has the place in its source where it was read (source, partition, "offset").
-- source_offsets moves in the same database transaction as the rows, so a restart reads on without loss and without a repeat.

create table schema_versions (version integer primary key, applied_at_ms bigint not null);

-- One row per opening: the first write after a kill drops a torn write-ahead log (see history_file.py).
create table openings (at_ms bigint not null);

-- next_offset: the first offset of (source, partition) that is not in history.
create table source_offsets (
    source varchar not null, partition integer not null, next_offset bigint not null, primary key (source, partition));

-- __transaction_state as decoded, or the same from polling. start_ms is null outside a transaction.
create table transaction_records (
    source varchar not null, partition integer not null, "offset" bigint not null,
    transaction_id varchar not null, producer_id bigint, producer_epoch integer, status varchar not null,
    start_ms bigint, update_ms bigint, timeout_ms integer, partitions varchar[], client_version integer);

-- Lifecycle events as they were told (CloudEvents JSON).
create table lifecycle_events (
    source varchar not null, partition integer not null, "offset" bigint not null,
    type varchar not null, at_ms bigint not null, pipeline varchar not null, event varchar not null);

-- Records of the decision log as they stand there (JSON).
create table decision_records (
    source varchar not null, partition integer not null, "offset" bigint not null,
    type varchar not null, at_ms bigint not null, prefix varchar not null, record varchar not null);

-- Files of Spark checkpoint directories; a file is known by its modification time too, since a new directory counts from 0.
create table checkpoint_files (
    source varchar not null, partition integer not null, "offset" bigint not null,
    pipeline varchar not null, kind varchar not null, number bigint not null, at_ms bigint not null,
    modified_ns bigint not null, watermark_ms bigint);

-- Records that could not be understood, kept aside.
create table malformed (
    source varchar not null, partition integer not null, "offset" bigint not null,
    at_ms bigint not null, error varchar not null, value varchar not null);

-- One row per order, whatever its outcome. keys and evidence are JSON.
create table audit (
    audit bigint primary key, at_ms bigint not null, who varchar not null, action varchar not null, keys varchar not null,
    reason varchar not null, outcome varchar not null, detail varchar not null, evidence varchar not null);
