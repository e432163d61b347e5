-- What an order is about to send, written before it is sent: an order that was cut short is found again. evidence and acts are JSON.
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
