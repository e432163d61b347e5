"""The queries of alerts, silences and the outbox, each named for what it does. Values are always bound."""

ALERTS = "select state, since_ms, found_ms, fired_ms, finding from alerts"
# A thousand alerts at once are one statement, whose values are columns: one row at a time takes milliseconds each.
KEEP_ALERTS = """
insert or replace into alerts select unnest(?::varchar[]), unnest(?::varchar[]), unnest(?::bigint[]), unnest(?::bigint[]),
       unnest(?::bigint[]), unnest(?::varchar[])"""
DROP_ALERTS = "delete from alerts where alert in (select unnest(?::varchar[]))"

GROUPS = "select group_key, notified_ms, reported from alert_groups"
KEEP_GROUPS = """
insert or replace into alert_groups select unnest(?::varchar[]), unnest(?::bigint[]), unnest(?::varchar[])"""
DROP_GROUPS = "delete from alert_groups where group_key in (select unnest(?::varchar[]))"

SILENCES = "select silence, matchers, reason, author, starts_ms, ends_ms from silences order by silence desc limit ?"
LAST_SILENCE = "select coalesce(max(silence), 0) from silences"
KEEP_SILENCE = "insert or replace into silences values (?, ?, ?, ?, ?, ?)"
END_SILENCE = "update silences set ends_ms = ? where silence = ?"

LAST_NOTIFICATION = "select coalesce(max(number), 0) from notifications"
ADD_NOTIFICATION = "insert into notifications values (?, ?, ?, ?)"
ADD_DELIVERY = "insert into deliveries values (?, ?, 'waiting', 0, ?, '')"
# A receiver is notified in order: only its oldest waiting delivery is looked at.
NEXT_DELIVERY = """
select d.number, d.attempts, d.next_ms, n.body from deliveries d join notifications n using (number)
where d.receiver = ? and d.state = 'waiting' order by d.number limit 1"""
NOTE_DELIVERY = (
    "update deliveries set state = ?, attempts = ?, next_ms = ?, error = ? where number = ? and receiver = ?"
)
DELIVERIES = """
select receiver, count(*) filter (d.state = 'waiting') as waiting, min(n.at_ms) filter (d.state = 'waiting') as oldest_ms,
       count(*) filter (d.state = 'given up') as given_up, arg_max(d.error, d.number) filter (d.error <> '') as error
from deliveries d join notifications n using (number) group by receiver"""

# The newest notification stays: the next one is numbered after it.
FORGET_DELIVERIES = """
delete from deliveries where number in (select number from notifications where at_ms < ?)"""
FORGET_NOTIFICATIONS = """
delete from notifications where at_ms < ? and number < (select max(number) from notifications)
  and number not in (select number from deliveries)"""
