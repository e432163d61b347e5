-- A topic that was deleted and made again begins to count its offsets anew: an epoch of its own in history, under a source name
-- of its own. topic_id is Kafka's (empty where brokers tell none). The first epoch has the topic's name.
create table source_epochs (
    topic varchar not null, epoch integer not null, source varchar not null, topic_id varchar not null,
    began_at_ms bigint not null, primary key (topic, epoch));
