-- Branches in databases: when each was seen to be listed as prepared, and when it was not any more. proof: what its marker said
-- then (null for a foreign one). place: the name that the database was given.
create table prepared_branches (
    source varchar not null, partition integer not null, "offset" bigint not null,
    place varchar not null, resource_manager varchar not null, transaction_id varchar not null, what varchar not null,
    at_ms bigint not null, proof varchar, prepared_ms bigint, owner varchar, "database" varchar);
