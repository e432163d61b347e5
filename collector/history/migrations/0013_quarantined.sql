-- Records that could not be understood, or that no column takes: named for what is done with them.
alter table malformed rename to quarantined;
update retired_rows set table_name = 'quarantined' where table_name = 'malformed';
