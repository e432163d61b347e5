-- How readers stood behind each application's open transactions, where anything waited or was hidden: the most of a stretch of time.
-- Ten seconds each, later a minute and an hour (span_ms says which); of rows with the same key the largest values count.

-- application: who holds the last stable offsets back; empty while that is unknown. waiting: consumer groups. longest_wait_ms: of the
-- one that waited longest, 0 without any. hidden: high watermark less last stable offset, of the partition that hides most.
create table reader_waits (
    begin_ms bigint not null, span_ms bigint not null, application varchar not null, waiting bigint not null,
    longest_wait_ms bigint not null, hidden bigint not null);

-- When each source was observed, one row for each uninterrupted time; source 'collector': when the collector itself ran. What is in
-- no row was not looked at: no value there is a gap, and no zero.
create table source_watches (
    source varchar not null, from_ms bigint not null, until_ms bigint not null, primary key (source, from_ms));
