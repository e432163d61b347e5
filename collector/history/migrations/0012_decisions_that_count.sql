-- Whether a record of the decision log counts, as its reader found when all that it rests on was there: older rows leave history,
-- and the log itself is cut. Null in rows from before: they are judged again.
alter table decision_records add column counts boolean;
