-- Counts that stay when the rows they were taken from leave: first per minute, later per hour (span_ms says which). Rows with the
-- same key add up: each commit appends its own.

-- application: a transactional id without the numbers at its end (and Kafka Streams' process id before them). outcome: committed,
-- aborted, by the coordinator's own log; lost (counted among the aborted too), as pipelines told.
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

-- seen_in: lifecycle events, checkpoint directory, flink; one checkpoint may be seen in several.
create table checkpoint_counts (
    begin_ms bigint not null, span_ms bigint not null, pipeline varchar not null, seen_in varchar not null,
    checkpoints bigint not null, duration_total_ms bigint not null, duration_most_ms bigint not null);

-- How many rows of a table have left.
create table retired_rows (table_name varchar not null, retired bigint not null, primary key (table_name));

insert into transaction_counts
select update_ms // 60000 * 60000, 60000,
       regexp_replace(transaction_id, '(-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?(-[0-9]+)+$', ''),
       case status when 'COMPLETE_COMMIT' then 'committed' else 'aborted' end, count(*)
from transaction_records where status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT') and start_ms is not null
group by all;
