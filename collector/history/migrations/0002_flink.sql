-- What Flink's REST API told of checkpoints: one row when one was first seen running, one when it had ended.
create table flink_checkpoints (
    source varchar not null, partition integer not null, "offset" bigint not null,
    cluster varchar not null, job varchar not null, job_name varchar not null, number bigint not null, status varchar not null,
    kind varchar not null, triggered_ms bigint not null, ended_ms bigint, state_bytes bigint, reason varchar not null,
    path varchar not null);

-- … and of jobs: one row whenever one had changed. restored_*: what its newest attempt started from.
create table flink_jobs (
    source varchar not null, partition integer not null, "offset" bigint not null,
    cluster varchar not null, job varchar not null, name varchar not null, state varchar not null, started_ms bigint not null,
    changed_ms bigint not null, ended_ms bigint, restarts bigint, restored_number bigint, restored_ms bigint,
    restored_path varchar not null);
