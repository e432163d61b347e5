-- Columns and JSON fields get the names that the code and the API have for them.
alter table prepared_branches rename column place to instance;
alter table alert_groups rename column told to reported;
update alerts set finding = replace(finding, '"about": {', '"subject_labels": {');
update order_intents set acts = replace(replace(acts, '"will": "', '"description": "'), '"about": ', '"batch_attempt": ');
update audit set detail = replace(detail, '"will": "', '"description": "');
update order_answers set answer = replace(answer, '"will": "', '"description": "');
