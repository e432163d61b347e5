-- Where the records of undone transactions are: looked for once, because retention deletes what it would be found by.
create table transaction_offsets (
    source varchar not null, partition integer not null, "offset" bigint not null,
    transaction_id varchar not null, producer_id bigint not null, start_ms bigint not null, topic_partition varchar not null,
    first_offset bigint, first_is_exact boolean not null, next_offset bigint, how varchar not null, at_ms bigint not null);
