-- How long transactions were open, of each application: counts that stay when the rows they were taken from leave. Per minute, and
-- per hour once two hours old (span_ms says which); rows with the same key add up.

-- application: a transactional id without its last one or two numbers (or a process id and what follows it). bucket: eight to each
-- doubling of the length. timed_out: aborted, and open for its timeout or longer. longest: of the bucket's, and whose it was.
create table transaction_lengths (
    begin_ms bigint not null, span_ms bigint not null, application varchar not null, timeout_ms integer not null,
    timed_out boolean not null, bucket smallint not null, transactions bigint not null, longest_ms bigint not null,
    longest_transaction varchar not null);

insert into transaction_lengths
select update_ms // 60000 * 60000, 60000,
       regexp_replace(transaction_id, '(-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9]+)*|(-[0-9]+){1,2})$', ''),
       timeout_ms, status = 'COMPLETE_ABORT' and length_ms >= timeout_ms, floor(8 * log2(greatest(length_ms, 1)))::smallint,
       count(*), max(length_ms), arg_max(transaction_id, length_ms)
from (select *, greatest(update_ms - start_ms, 0) as length_ms from transaction_records)
where status in ('COMPLETE_COMMIT', 'COMPLETE_ABORT') and start_ms is not null and timeout_ms > 0
group by all;
