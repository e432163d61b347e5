-- When a job was seen so, by the collector's clock: the later look counts, whatever Flink says of the job's own times.
alter table flink_jobs add column seen_ms bigint default 0;
