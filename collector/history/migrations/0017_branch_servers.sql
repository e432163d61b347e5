-- Which server listed a branch, or lists it no more: another one's silence is no end. Empty in rows from before.
alter table prepared_branches add column server text default '';
