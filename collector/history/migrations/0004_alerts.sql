-- Alerts as they stand, one row each; finding and told are JSON. Not append-only: what stands now is all that a restart needs.
create table alerts (
    alert varchar primary key, state varchar not null, since_ms bigint not null, found_ms bigint not null, fired_ms bigint,
    finding varchar not null);

-- What receivers were told of each group: its firing alerts.
create table alert_groups (group_key varchar primary key, notified_ms bigint not null, told varchar not null);

-- matchers is JSON. A silence that was ended early has its new end here; who ended it stands in audit.
create table silences (
    silence bigint primary key, matchers varchar not null, reason varchar not null, author varchar not null,
    starts_ms bigint not null, ends_ms bigint not null);

-- The outbox: what must be told, written in the same database transaction as the alerts it tells of (body is JSON) …
create table notifications (number bigint primary key, notification varchar not null, at_ms bigint not null, body varchar not null);

-- … and how far each receiver got with it.
create table deliveries (
    number bigint not null, receiver varchar not null, state varchar not null, attempts integer not null,
    next_ms bigint not null, error varchar not null, primary key (number, receiver));
