"""Whether an open transaction of a Flink job is to be committed or aborted, by what Flink's checkpoints list. Pure.

Flink writes a checkpoint's ``_metadata`` before it records that the checkpoint is completed. So a listed transaction is to be
committed for certain only once REST reported a checkpoint that holds it as completed, once a job was restored from one, or once
its high-availability store has it restored from one; and never once the work was set back to before it, because its rows are then
written again. What all rest on: FlinkCase.known.
"""

from __future__ import annotations

from collections.abc import Callable

from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS
from indoubt.collector.verdicts.flink_evidence import (
    FILES,
    METADATA,
    REST,
    STORE,
    beside_the_lists,
    checkpoint_name,
    in_the_store,
    in_words,
    listed_exactly,
    unread_list,
    what_follows,
)
from indoubt.collector.verdicts.flink_known import Answer, FlinkCase
from indoubt.collector.verdicts.flink_line import Standing
from indoubt.collector.verdicts.flink_sink_words import words_of
from indoubt.lifecycle.verdicts import Assumption, Evidence, Judgement, Verdict


def judge(case: FlinkCase) -> Judgement | None:
    """Return the verdict of the first rule that answers, or None: Flink's checkpoints say nothing about it."""
    return next((found for rule in RULES if (found := rule(case)) is not None), None)


def rule_21_restore_not_known(case: FlinkCase) -> Judgement | None:
    """A job was restored since, and whether the work rests on this checkpoint is not known."""
    known = case.known() if case.listings else None
    if known is None or known.answer is not Answer.DOUBT:
        return None
    doubt = Evidence(known.why, REST)
    return Judgement(Verdict.UNKNOWN, 21, (listed_exactly(case), doubt), may_abort=True, loses_data=True)


def rule_22_set_back(case: FlinkCase) -> Judgement | None:
    """The work was set back to before the checkpoint that lists it: its rows are written again."""
    known = case.known() if case.listings else None
    if known is None or known.answer is not Answer.SET_BACK:
        return None
    set_back = Evidence(known.why, REST, known.at_ms)
    rests_on = (listed_exactly(case), set_back, *beside_the_lists(case))
    return Judgement(
        Verdict.ABORT_IT, 22, rests_on, assumes=known.assumes, may_abort=True, loses_data=bool(known.assumes)
    )


def rule_39_left_out(case: FlinkCase) -> Judgement | None:
    """Its table has this checkpoint of its job and sink, or a later one, without its files: Flink takes it for done."""
    # A commit to a Paimon table that waits only for its job is added whatever number the table has.
    if not case.listings or not case.left_out or (words_of(case).is_restarted and case.may_run):
        return None
    left_out = Evidence(case.left_out, FILES)
    follows = Evidence(words_of(case).left_out, METADATA)
    return Judgement(Verdict.UNKNOWN, 39, (listed_exactly(case), left_out, follows), loses_data=True)


def rule_23_completed(case: FlinkCase) -> Judgement | None:
    """A checkpoint that holds it counts, and it is still open: commit it. Before flink_commit_overdue_ms its job commits it."""
    known = case.known() if case.listings and not case.is_list_gone else None
    if known is None or known.answer is not Answer.COUNTS:
        return None
    counts = Evidence(known.why, STORE if known.by_store else REST, known.at_ms)
    evidence: tuple[Evidence, ...] = (listed_exactly(case), counts, *beside_the_lists(case))
    if case.is_branch and case.may_run:
        evidence = (*evidence, Evidence(f"{in_words(case)}: it {words_of(case).by_job}", REST))
    if case.now_ms - known.at_ms < case.commit_overdue_ms or (case.is_branch and case.may_run):
        return Judgement(Verdict.IN_PROGRESS, 23, evidence, assumes=(Assumption.OWNER_ENDS_IT,), loses_data=True)
    assumes = known.assumes
    if case.is_branch and not case.has_ended and case.in_store() is None:
        fact = (
            f"REST does not answer, so whether {case.name} still runs is not known: {words_of(case).if_gone} only if the job is "
            f"gone. One that runs {words_of(case).by_job}"
        )
        evidence = (*evidence, Evidence(fact, REST))
        assumes = (*assumes, Assumption.JOB_IS_GONE)
    if case.may_refuse_flink:
        assumes = (*assumes, Assumption.JOB_GOES_ON_FROM_IT)
    return Judgement(
        Verdict.COMMIT_IT,
        23,
        (*evidence, what_follows(case)),
        assumes=assumes,
        may_commit=True,
        may_abort=bool(assumes),
        loses_data=True,
        commit_confirmation=checkpoint_name(case.first_not_failed) if assumes else "",
    )


def rule_24_not_over(case: FlinkCase) -> Judgement | None:
    """Its job runs, and the checkpoint that lists it has not ended: Flink commits it, or lists it again."""
    if not case.listings or not (case.may_run if case.is_branch else case.is_alive):
        return None
    fact = f"{in_words(case)}, and Flink has not reported checkpoint {case.first.number} as completed"
    if case.is_list_gone:
        fact = f"{in_words(case)}, and the checkpoints that listed it are deleted: Flink commits it, or lists it in a later one"
    elif case.is_savepoint(case.first):
        fact = f"{in_words(case)}: it commits what savepoint {case.first.number} lists, or its next checkpoint lists it again"
    return Judgement(
        Verdict.IN_PROGRESS,
        24,
        (listed_exactly(case), Evidence(fact, REST)),
        assumes=(Assumption.OWNER_ENDS_IT,),
        loses_data=True,
    )


def rule_36_list_gone(case: FlinkCase) -> Judgement | None:
    """Every checkpoint that lists it is deleted: no order finds it listed, and no job is restored from any of them."""
    if not case.is_list_gone:
        return None
    completed = case.completed()
    counts = (
        f"checkpoint {completed[0]} of {case.name} counted ({completed[2]})" if completed else "its end was not seen"
    )
    fact = (
        f"{case.listings[-1].path} is not there any more, and no other checkpoint that was read lists it; {counts}. No commit is "
        "offered without a list. If the job goes on from a later checkpoint, an abort or the timeout loses its rows"
    )
    return Judgement(
        Verdict.UNKNOWN,
        36,
        (listed_exactly(case), Evidence(fact, METADATA)),
        may_abort=True,
        loses_data=True,
    )


def rule_34_failed(case: FlinkCase) -> Judgement | None:
    """REST reported each checkpoint that lists it as failed: Flink keeps a list where it does not know whether it counts."""
    failed = case.failed() if case.listings else None
    if failed is None:
        return None
    seen, at_ms = failed
    name = checkpoint_name(case.listings[-1])
    reported = (
        f"REST reported checkpoint {seen.number} of {case.name} as failed{f' ({seen.reason})' if seen.reason else ''}"
    )
    fact = (
        f"Flink keeps its list where it cannot tell whether it recorded the checkpoint, and deletes it otherwise. No commit is "
        f"offered until a job is restored from {name}; restored from an earlier one, it writes these rows again. Until then an "
        "abort may lose its rows"
    )
    failure = Evidence(reported, REST, at_ms)
    return Judgement(
        Verdict.UNKNOWN,
        34,
        (listed_exactly(case), failure, Evidence(fact, METADATA)),
        may_abort=True,
        loses_data=True,
    )


def rule_25_end_not_seen(case: FlinkCase) -> Judgement | None:
    """It is listed, and it was not seen whether Flink recorded the checkpoint as completed before the job stopped.

    Or it is a savepoint that lists it, which Flink records nowhere: only a person has a job go on from it.
    """
    if not case.listings:
        return None
    written_ms = case.listings[-1].written_ms
    if case.now_ms - written_ms < case.commit_overdue_ms:
        return Judgement(
            Verdict.IN_PROGRESS, 25, (listed_exactly(case),), assumes=(Assumption.OWNER_ENDS_IT,), loses_data=True
        )
    name = checkpoint_name(case.first_not_failed)
    known = f"the end of {name} was not seen"
    if case.is_savepoint(case.first_not_failed):
        known = f"{name} is a savepoint, from which the job does not restart by itself"
    fact = (
        f"{known}: commit it only if the job is then restored from {name} or from a later one. Restored from an earlier one, it "
        "writes these rows twice"
    )
    if words_of(case).is_restarted:
        fact = known
    listed = (listed_exactly(case), Evidence(fact, METADATA), *in_the_store(case))
    rests_on = (*listed, what_follows(case), *beside_the_lists(case))
    return Judgement(
        Verdict.COMMIT_IT,
        25,
        rests_on,
        assumes=(Assumption.JOB_GOES_ON_FROM_IT, *case.assumes),
        may_commit=True,
        may_abort=True,
        loses_data=True,
        commit_confirmation=name,
    )


def rule_38_unnamed(case: FlinkCase) -> Judgement | None:
    """A hidden file that the last checkpoint would name, and that none on disk names: what it holds is written again."""
    if case.unnamed is None:
        return None
    file, last = case.unnamed
    fact = (
        f"{last.listing.path}/{METADATA} names every file that {last.name} has open or has to make visible, and no checkpoint on "
        "disk names this one, which was begun before: a job that was set back left it, and writes its rows again"
    )
    unnamed = Evidence(fact, METADATA, last.taken_ms)
    seen = Evidence(f"it was seen hidden in {file.directory} first", FILES, file.opened_ms)
    return Judgement(
        Verdict.ABORT_IT, 38, (unnamed, seen), assumes=(Assumption.NO_OTHER_NAMES_IT,), may_abort=True, loses_data=True
    )


def rule_26_lingering(case: FlinkCase) -> Judgement | None:
    """The work was restored from a checkpoint that was taken before it and does not list it: its rows are written again."""
    restore, restored = case.last_restore, case.restored
    if case.listings or case.doubt or restore is None or restored is None:
        return None
    # Its own restore stands over what was completed before; another job's does not.
    if case.restored_by and case.unread is not None:
        return None
    is_between = restored.written_ms + CLOCK_SKEW_MS < case.start_ms < restore.at_ms - CLOCK_SKEW_MS
    if not is_between or (not case.is_alive and any(each.standing is Standing.UNKNOWN for each in case.rivals)):
        return None
    fact = (
        f"{case.restored_by or case.name} was restored from checkpoint {restore.number}, which was written before it began and "
        "does not list it: its rows are written again"
    )
    assumes = case.assumes_heir if case.restored_by else case.assumes
    rests_on = (Evidence(fact, METADATA, restore.at_ms), *beside_the_lists(case))
    return Judgement(Verdict.ABORT_IT, 26, rests_on, assumes=assumes, may_abort=True, loses_data=bool(assumes))


def rule_27_job_runs(case: FlinkCase) -> Judgement | None:
    """Its job runs, and it began after the job's last start: the next checkpoint lists it."""
    # In Kafka a completed checkpoint that may hold it has a timeout to beat.
    runs = case.is_alive if case.unread is not None and not case.is_branch else case.may_run
    if case.listings or not runs or case.job is None:
        return None
    restored_ms = max((restore.at_ms for restore in case.job.restores), default=0)
    if case.start_ms < max(case.job.job.started_ms, restored_ms) - CLOCK_SKEW_MS:
        return None
    fact = f"{in_words(case)}, and it belongs to that job: its next checkpoint lists it"
    return Judgement(
        Verdict.IN_PROGRESS,
        27,
        (Evidence(fact, REST),),
        assumes=(Assumption.OWNER_ENDS_IT,),
        loses_data=True,
    )


def rule_30_list_out_of_reach(case: FlinkCase) -> Judgement | None:
    """A completed checkpoint must list it, and its list is out of reach: commit it, if the job is then restored from it."""
    unread = case.unread
    if case.listings or unread is None or unread.doubt or case.now_ms - unread.ended_ms < case.commit_overdue_ms:
        return None
    name = checkpoint_name(unread.as_place())
    fact = (
        "it began before that checkpoint was triggered, its number is no higher, and its job was neither restored nor restarted in "
        f"between: so Flink listed it. Commit it only if the job is then restored from {name} or from a later one. Restored from "
        "an earlier one, it writes these rows twice. An abort, or the timeout, loses its rows"
    )
    return Judgement(
        Verdict.COMMIT_IT,
        30,
        (*unread_list(unread), Evidence(fact, REST)),
        assumes=(Assumption.LIST_NAMES_IT, Assumption.JOB_GOES_ON_FROM_IT, *case.assumes),
        may_commit=True,
        may_abort=True,
        loses_data=True,
        commit_confirmation=name,
    )


def rule_31_list_not_read(case: FlinkCase) -> Judgement | None:
    """REST reported a checkpoint that may hold it as completed, and its list is not read: an abort may lose its rows."""
    unread = case.unread
    if case.listings or unread is None:
        return None
    if case.now_ms - unread.ended_ms < case.commit_overdue_ms:
        return Judgement(
            Verdict.IN_PROGRESS, 31, unread_list(unread), assumes=(Assumption.OWNER_ENDS_IT,), loses_data=True
        )
    fact = f"no commit is offered, because {unread.doubt}. If that checkpoint holds it, an abort or the timeout loses its rows"
    return Judgement(Verdict.UNKNOWN, 31, (*unread_list(unread), Evidence(fact, REST)), may_abort=True, loses_data=True)


RULES: tuple[Callable[[FlinkCase], Judgement | None], ...] = (
    rule_21_restore_not_known,
    rule_22_set_back,
    rule_39_left_out,
    rule_23_completed,
    rule_24_not_over,
    rule_36_list_gone,
    rule_34_failed,
    rule_25_end_not_seen,
    rule_38_unnamed,
    rule_26_lingering,
    rule_27_job_runs,
    rule_30_list_out_of_reach,
    rule_31_list_not_read,
)
