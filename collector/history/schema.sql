-- History: append-only. Every row has the place in its source where it was read (source, partition, "offset").
-- source_offsets moves in the same database transaction as the rows, so a restart reads on without loss and without a
-- repeat.

-- One row: SCHEMA_VERSION of the program that made the file (database_file.py derives it from this script).
create table schema_version (version integer not null);

-- One row per opening: the first write after a kill drops a torn write-ahead log (see database_file.py).
create table openings (at_ms bigint not null);

-- next_offset: the first offset of (source, partition) that is not in history.
create table source_offsets (
    source varchar not null, partition integer not null, next_offset bigint not null, primary key (source, partition));

-- A topic that was deleted and made again begins to count its offsets anew: an epoch of its own in history, under a source
-- name of its own. topic_id is Kafka's (empty where brokers tell none). The first epoch has the topic's name.
create table source_epochs (
    topic varchar not null, epoch integer not null, source varchar not null, topic_id varchar not null,
    began_at_ms bigint not null, primary key (topic, epoch));

-- What was observed

-- __transaction_state as decoded, or the same from polling. start_ms is null outside a transaction.
create table transaction_records (
    source varchar not null, partition integer not null, "offset" bigint not null,
    transaction_id varchar not null, producer_id bigint, producer_epoch integer, status varchar not null,
    start_ms bigint, update_ms bigint, timeout_ms integer, partitions varchar[], client_version integer);

-- Lifecycle events as they were told (CloudEvents JSON). As text they are most of a history: by zstd they take a third of
-- the room, and half of the processor time of a checkpoint.
create table lifecycle_events (
    source varchar not null, partition integer not null, "offset" bigint not null,
    type varchar not null, at_ms bigint not null, pipeline varchar not null,
    event varchar not null using compression zstd);

-- Records of the decision log as they stand there (JSON). counts: whether one counts, as its reader found when all that it
-- rests on was there: older rows leave history, and the log itself is cut.
create table decision_records (
    source varchar not null, partition integer not null, "offset" bigint not null,
    type varchar not null, at_ms bigint not null, prefix varchar not null, record varchar not null, counts boolean not null);

-- Files of Spark checkpoint directories; a file is known by its modification time too, since a new directory counts from 0.
create table checkpoint_files (
    source varchar not null, partition integer not null, "offset" bigint not null,
    pipeline varchar not null, kind varchar not null, number bigint not null, at_ms bigint not null,
    modified_ns bigint not null);

-- What Flink's REST API told of checkpoints: one row when one was first seen running, one when it had ended.
create table flink_checkpoints (
    source varchar not null, partition integer not null, "offset" bigint not null,
    cluster varchar not null, job varchar not null, job_name varchar not null, number bigint not null, status varchar not null,
    kind varchar not null, triggered_ms bigint not null, ended_ms bigint, state_bytes bigint, reason varchar not null,
    path varchar not null);

-- … and of jobs: one row whenever one had changed. restored_*: what its newest attempt started from. seen_ms: when it was
-- seen so, by the collector's clock: the later look counts, whatever Flink says of the job's own times.
create table flink_jobs (
    source varchar not null, partition integer not null, "offset" bigint not null,
    cluster varchar not null, job varchar not null, name varchar not null, state varchar not null, started_ms bigint not null,
    changed_ms bigint not null, ended_ms bigint, restarts bigint, restored_number bigint, restored_ms bigint,
    restored_path varchar not null, seen_ms bigint not null);

-- Branches in databases: when each was seen to be listed as prepared, and when it was not any more. proof: what its marker
-- said then (null for a foreign one). instance: the name that the database was given. server: which one listed it, or lists
-- it no more: another one's silence is no end; empty where that is not known.
create table prepared_branches (
    source varchar not null, partition integer not null, "offset" bigint not null,
    instance varchar not null, resource_manager varchar not null, transaction_id varchar not null, what varchar not null,
    at_ms bigint not null, proof varchar, prepared_ms bigint, owner varchar, "database" varchar, server varchar not null);

-- Where the records of undone transactions are: looked for once, because retention deletes what it would be found by.
create table transaction_offsets (
    source varchar not null, partition integer not null, "offset" bigint not null,
    transaction_id varchar not null, producer_id bigint not null, start_ms bigint not null, topic_partition varchar not null,
    first_offset bigint, first_is_exact boolean not null, next_offset bigint, how varchar not null, at_ms bigint not null);

-- Records that could not be understood, or that no column takes.
create table quarantined (
    source varchar not null, partition integer not null, "offset" bigint not null,
    at_ms bigint not null, error varchar not null, value varchar not null);

-- What operators did

-- One row per order, whatever its outcome. keys and evidence are JSON.
create table audit (
    audit bigint primary key, at_ms bigint not null, who varchar not null, action varchar not null, keys varchar not null,
    reason varchar not null, outcome varchar not null, detail varchar not null, evidence varchar not null);

-- What an order is about to send, written before it is sent: an order that was cut short is found again. evidence and acts
-- are JSON.
create table order_intents (
    intent bigint primary key, at_ms bigint not null, who varchar not null, action varchar not null, reason varchar not null,
    evidence varchar not null, acts varchar not null, idempotency_key varchar not null, digest varchar not null);

-- Audit rows about an intent, the first and those of its follow-up; unknown: the keys whose end was not known then (JSON).
create table order_results (
    audit bigint primary key, intent bigint not null, refers_to bigint, unknown varchar not null);

-- The first answer to each idempotency key of each caller.
create table order_answers (
    who varchar not null, idempotency_key varchar not null, digest varchar not null, at_ms bigint not null,
    status integer not null, answer varchar not null, primary key (who, idempotency_key));

-- Alerts

-- Alerts as they stand, one row each; finding is JSON. Not append-only: what stands now is all that a restart needs.
create table alerts (
    alert varchar primary key, state varchar not null, since_ms bigint not null, found_ms bigint not null, fired_ms bigint,
    finding varchar not null);

-- What receivers were told of each group: its firing alerts (JSON).
create table alert_groups (group_key varchar primary key, notified_ms bigint not null, reported varchar not null);

-- matchers is JSON. A silence that was ended early has its new end here; who ended it stands in audit.
create table silences (
    silence bigint primary key, matchers varchar not null, reason varchar not null, author varchar not null,
    starts_ms bigint not null, ends_ms bigint not null);

-- The outbox: what must be told, written in the same database transaction as the alerts it tells of (body is JSON) …
create table notifications (
    number bigint primary key, notification varchar not null, at_ms bigint not null, body varchar not null);

-- … and how far each receiver got with it.
create table deliveries (
    number bigint not null, receiver varchar not null, state varchar not null, attempts integer not null,
    next_ms bigint not null, error varchar not null, primary key (number, receiver));

-- Counts that stay when the rows they were taken from leave: first per ten seconds or minute, later per hour (span_ms says).
-- with the same key add up: each commit appends its own. application: an id that all ids of an application share
-- (application_ids.form_of), from which its name is derived when they are read.

-- outcome: committed, aborted, by the coordinator's own log; branch committed, branch aborted, as pipelines told.
create table transaction_counts (
    begin_ms bigint not null, span_ms bigint not null, application varchar not null, outcome varchar not null,
    transactions bigint not null);

create table abort_counts (
    begin_ms bigint not null, span_ms bigint not null, application varchar not null, cause varchar not null,
    transactions bigint not null);

-- Aborts whose cause is not counted yet: it shows in what follows them.
create table aborts_to_explain (
    transaction_id varchar not null, producer_id bigint not null, start_ms bigint not null, ended_ms bigint not null,
    application varchar not null);

-- Why transactions were aborted, where history is archived: until they are in the archive, which has it beside their ends.
create table explained_aborts (
    transaction_id varchar not null, producer_id bigint not null, start_ms bigint not null, ended_ms bigint not null,
    cause varchar not null);

-- The longest checkpoint of a pipeline of ours, as its events or its checkpoint directory have it.
create table longest_checkpoints (
    begin_ms bigint not null, span_ms bigint not null, pipeline varchar not null, longest_ms bigint not null);

-- How long transactions were open; per hour once two hours old. bucket: eight to each doubling of the length. timed_out:
-- aborted, and open for its timeout or longer. longest: of the bucket's, and whose it was.
create table transaction_lengths (
    begin_ms bigint not null, span_ms bigint not null, application varchar not null, timeout_ms integer not null,
    timed_out boolean not null, bucket smallint not null, transactions bigint not null, longest_ms bigint not null,
    longest_transaction varchar not null);

-- How readers stood behind each application's open transactions, where anything waited or was hidden: the most of a stretch
-- of time. Ten seconds each, later a minute and an hour (span_ms says which); of rows with the same key the largest values
-- count. application: who holds the last stable offsets back; empty while that is unknown. waiting: consumer groups.
-- longest_wait_ms: of the one that waited longest, 0 without any. hidden: high watermark less last stable offset, of the
-- partition that hides most. lag: most records that a group had not read on the partitions that the application writes.
create table reader_waits (
    begin_ms bigint not null, span_ms bigint not null, application varchar not null, waiting bigint not null,
    longest_wait_ms bigint not null, hidden bigint not null, lag bigint not null);

-- What consumer groups had not read, where it was anything: the most of a stretch of time, ten seconds, later a minute;
-- it leaves after a day. lag: up to the last stable offset, hidden: behind it, both over all partitions of the group.
create table group_lags (
    begin_ms bigint not null, span_ms bigint not null, consumer_group varchar not null, lag bigint not null,
    hidden bigint not null);

-- Ends of partitions that are read or hide records, where they moved, in the same stretches: the largest high watermark, and
-- the most offsets that were hidden, between it and the last stable offset.
create table partition_ends (
    begin_ms bigint not null, span_ms bigint not null, topic varchar not null, partition integer not null,
    high_watermark bigint not null, hidden bigint not null);

-- When each source was observed, one row for each uninterrupted time; source 'collector': when the collector itself ran.
-- What is in no row was not looked at: no value there is a gap, and no zero.
create table source_watches (
    source varchar not null, from_ms bigint not null, until_ms bigint not null, primary key (source, from_ms));

-- How many rows of a table have left.
create table retired_rows (table_name varchar not null, retired bigint not null, primary key (table_name));

-- Where history is archived: as which cluster, and the time before which rows are read there, since they may have left here.
create table left_history (cluster varchar primary key, before_ms bigint not null);
