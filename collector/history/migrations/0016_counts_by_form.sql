-- Counts go by an id that all ids of an application share (application_ids.form_of), from which its name is derived when they are
-- read: another id than before where a part before the last numbers names the process, or where numbers follow other signs.

-- Until now they went by ids without their last one or two numbers, which stand in again. What ends in digits that no hyphen
-- precedes is a whole id, unless a pipeline has it as its prefix.
create or replace temp table renamed as
select application from (
    select application from transaction_counts union select application from abort_counts
    union select application from aborts_to_explain union select application from transaction_lengths)
where not regexp_matches(application, '[0-9]$') or regexp_matches(application, '-[0-9]+$')
   or application in (select pipeline from lifecycle_events);

update transaction_counts set application = application || '-0-0' where application in (from renamed);
update abort_counts set application = application || '-0-0' where application in (from renamed);
update aborts_to_explain set application = application || '-0-0' where application in (from renamed);
update transaction_lengths set application = application || '-0-0' where application in (from renamed);
drop table renamed;
