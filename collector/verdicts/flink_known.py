"""What the checkpoints and restores of a Flink job say of one transaction: whether the work rests on it. Pure.

The verdict about an open transaction (flink_commits.py), and the answers about one that has ended (flink_checkpoints.py,
flink_duplicates.py) rest on this alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from indoubt.collector.records.flink_job_facts import CLOCK_SKEW_MS, FlinkJobFacts, Restore
from indoubt.collector.records.flink_stores import StoredCheckpoint
from indoubt.collector.records.formats.flink_records import ENDED, FlinkCheckpoint, FlinkCommittables, FlinkStatus
from indoubt.collector.records.formats.pending_files import UnnamedFile
from indoubt.collector.verdicts.flink_line import Rival, Standing
from indoubt.collector.verdicts.flink_unnamed_files import LastList
from indoubt.collector.verdicts.flink_unread_lists import UnreadList
from indoubt.lifecycle.verdicts import Assumption


class Answer(Enum):
    """What is known of the work that a listed transaction is part of."""

    COUNTS = "counts"
    """It rests on a checkpoint that lists the transaction: its rows are not written again."""
    SET_BACK = "set back"
    """It was set back to before the transaction: its rows are written again."""
    DOUBT = "doubt"
    OPEN = "open"
    """Nothing ended a checkpoint that lists it, as far as was seen."""


@dataclass(frozen=True, slots=True)
class Known:
    """The answer, how it is known, and what it assumes.

    ``number``: of the checkpoint that says so; ``at_ms``: since when; ``restored_ms``: when the restore was that says so, else 0.
    ``by_store``: the high-availability store says so, not REST.
    """

    answer: Answer
    why: str = ""
    number: int = 0
    at_ms: int = 0
    restored_ms: int = 0
    assumes: tuple[Assumption, ...] = ()
    by_store: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlinkCase:
    """What is known of the Flink job of one open transaction. Times are epoch ms.

    ``is_branch``: it is one of a database, which keeps it prepared for ever and shows it, perhaps, later than it was prepared.
    ``listings``: the checkpoints on disk of one job that list exactly this transaction, by number. ``job`` None: REST does not
    know the job. ``polled``: its cluster's REST API answered the newest poll; ``away_since_ms``: since when it does not. None, and
    not ``polled``: it was not asked. ``restores``: the job's own, oldest first. ``rivals``: the other jobs that may go on with its
    work, or be copies of it. ``last_restore``: the newest that decides what becomes of a transaction that none lists.
    """

    start_ms: int
    listings: tuple[FlinkCommittables, ...]
    job: FlinkJobFacts | None
    name: str
    polled: bool
    restores: tuple[Restore, ...] = ()
    rivals: tuple[Rival, ...] = ()
    doubt: str = ""
    """Why what the job's own checkpoints and restores tell does not count, whatever they tell."""
    last_restore: Restore | None = None
    restored: FlinkCommittables | None = None
    """What the checkpoint of ``last_restore`` lists, where that was read whole."""
    restored_by: str = ""
    """Which other job ``last_restore`` is of; empty: the job itself."""
    may_hold: frozenset[int] = frozenset()
    """Of the checkpoints in ``restores``, those that may hold it, too: their lists were not read."""
    unread: UnreadList | None = None
    """Where none lists it: the completed checkpoint that holds it by what REST says, and whose list is not read."""
    is_branch: bool = False
    may_be_others: bool = False
    """Its job went on from another one's work since it began, or its prefix alone says whose it is, and others may use that."""
    stated: str = ""
    """Which statement of the settings binds the job's lists to this Kafka cluster; empty: none does."""
    unnamed: tuple[UnnamedFile, LastList] | None = None
    """A hidden file that no list on disk names, and the last checkpoint that would name it."""
    sink: str = ""
    """Its kind (FLINK_SINKS) where only checkpoints list it, and it stays hidden for ever; ``is_branch`` holds of it, too."""
    left_out: str = ""
    """Why its sink leaves it out for ever, as its table says; empty: it does not."""
    may_refuse_flink: bool = False
    """Its database may refuse the commit that Flink sends after a restore: MariaDB does, and lists as MySQL does."""
    stored: StoredCheckpoint | None = None
    """What its cluster's high-availability store has a recovery of the job go on from; None: no store is watched that says it."""
    is_alone_in_store: bool = False
    """That store has no other job: whatever could go on in its place is no job of that cluster."""
    has_answered: bool = False
    """Its cluster's REST API answered since the collector's start: what came to pass before is known."""
    away_since_ms: int | None = None
    commit_overdue_ms: int = 1_500
    driver_silent_ms: int = 30_000
    now_ms: int = 0

    @property
    def first(self) -> FlinkCommittables:
        """Return the first checkpoint that lists it."""
        return self.listings[0]

    @property
    def is_list_gone(self) -> bool:
        """Say whether every checkpoint that lists it is deleted."""
        return bool(self.listings) and all(listing.is_gone for listing in self.listings)

    @property
    def is_alive(self) -> bool:
        """Say whether the job runs, as REST says now."""
        return self.polled and self.job is not None and not self.job.job.is_over

    @property
    def has_ended(self) -> bool:
        """Say whether REST told that the job is over."""
        return self.job is not None and self.job.job.is_over

    @property
    def is_over_for_good(self) -> bool:
        """Say whether REST told that the job is over, and that no recovery brings it back: it does not of one that is gone."""
        return self.job is not None and self.job.job.state in ENDED

    @property
    def may_run(self) -> bool:
        """Say whether the job runs, or did when REST answered last, and REST is away for less than driver_silent_ms."""
        is_known = self.job is not None and not self.has_ended
        return self.is_alive or (is_known and self._is_away_for(0) and not self._is_away_for(self.driver_silent_ms))

    @property
    def is_gone(self) -> bool:
        """Say whether the job counts as gone: it has ended. In Kafka also once REST is away for commit_overdue_ms.

        A job that runs all the same does not mind a commit of what it has to commit itself in Kafka; in a database it fails.
        """
        is_away = not self.is_branch and self._is_away_for(self.commit_overdue_ms)
        return not self.is_alive and (self.has_ended or is_away)

    def _is_away_for(self, least_ms: int) -> bool:
        return self.away_since_ms is not None and self.now_ms - self.away_since_ms >= least_ms

    @property
    def assumes(self) -> tuple[Assumption, ...]:
        """Return what every answer about the job's work assumes: that the work, and the transaction, are this job's alone."""
        found = (
            (Assumption.WRITES_HERE, not self.is_branch and not self.stated),
            (Assumption.ITS_OWN, self.may_be_others),
            (Assumption.NO_OTHER_GOES_ON, bool(self.rivals)),
            (Assumption.NO_RESTORE_UNSEEN, not (self.has_answered or (self.is_alone_in_store and self.in_store()))),
        )
        return tuple(each for each, holds in found if holds)

    def known(self) -> Known:
        """Return what became of the work that rests on the checkpoints that list it; there is one at least.

        While its job runs, its own restores and checkpoints alone tell. Where it is over, or does not answer, another one may go
        on in its place.
        """
        if self.doubt:
            return Known(Answer.DOUBT, self.doubt)
        own = self._of_itself()
        heirs = [each for each in self.rivals if each.standing is not Standing.BESIDE]
        if own.answer is Answer.DOUBT or self.is_alive or not heirs:
            return own
        unknown = next((each for each in heirs if each.standing is Standing.UNKNOWN), None)
        if unknown is not None:
            return Known(
                Answer.DOUBT, f"{unknown.why}: if it goes on from an older checkpoint, a commit writes these rows twice"
            )
        return self._of_heirs(own, heirs)

    def _of_itself(self) -> Known:
        """Return what the job's own restores and checkpoints tell."""
        last, in_doubt = self.restored_to()
        first = self.first.number
        if in_doubt:
            why = (
                f"{self.name} was set back to before checkpoint {first} and restored again since: whether it builds on that "
                "checkpoint is not known"
            )
            if last is not None and last.number >= first:
                why = (
                    f"{self.name} was restored from checkpoint {last.number}, which lists it, and since then from a later one that "
                    "does not: whether it builds on the first is not known"
                )
            if last is not None and last.number in self.may_hold:
                why = (
                    f"{self.name} was restored from checkpoint {last.number}, which may hold it, too: it began before that "
                    "checkpoint was triggered, and its list was not read"
                )
            return Known(Answer.DOUBT, why)
        stored = self.in_store()
        if last is not None and last.number < first:
            back = self._set_back(self.name, last)
            if stored is None:
                return back
            return Known(Answer.DOUBT, f"{back.why}. But {stored[2]}: recovered, it goes on from there")
        completed = self.completed() or stored
        if completed is None:
            return Known(Answer.OPEN)
        number, at_ms, proof = completed
        why = f"checkpoint {number} of {self.name} lists it, and counts: {proof}"
        # Flink 1.14 and older write no properties, and report a checkpoint as completed before they add it to their store.
        is_old = (
            last is None
            and stored is None
            and any(
                each.number == number and each.kind is None and not self.is_savepoint(each) for each in self.listings
            )
        )
        return Known(
            Answer.COUNTS,
            why,
            number=number,
            at_ms=at_ms,
            restored_ms=last.at_ms if last is not None else 0,
            assumes=(*self.assumes, Assumption.COMPLETED_IS_STORED) if is_old else self.assumes,
            by_store=completed is stored,
        )

    def _of_heirs(self, own: Known, heirs: list[Rival]) -> Known:
        """Return what jobs tell that went on from checkpoints of a job that does not run, as far as they agree."""
        last = max(heirs, key=lambda each: each.restore.at_ms if each.restore else 0)
        assert last.restore is not None
        standings = {each.standing for each in heirs}
        if len(standings) > 1 or (own.answer is Answer.SET_BACK and last.standing is Standing.HOLDS):
            why = f"{last.why}, and another restore says otherwise: which of the two it builds on is not known"
            return Known(Answer.DOUBT, why)
        if last.standing is Standing.HOLDS:
            if own.answer is Answer.COUNTS:
                return replace(own, restored_ms=last.restore.at_ms)
            why = f"{last.why}, which lists it"
            return _by_restore(Answer.COUNTS, why, last.restore, self.assumes_heir)
        if own.answer is Answer.SET_BACK:
            return own
        if not self.is_over_for_good:
            why = f"{last.why}, and {self.name} may come back: if it does, it goes on from checkpoint {self.first.number} or later"
            return Known(Answer.DOUBT, why)
        return self._set_back(last.facts.pipeline, last.restore, self.assumes_heir)

    @property
    def assumes_heir(self) -> tuple[Assumption, ...]:
        """Return what an answer assumes that a restore by another job gives."""
        others = (each for each in self.assumes if each is not Assumption.NO_OTHER_GOES_ON)
        return (*others, Assumption.HEIR_GOES_ON)

    def _set_back(self, name: str, restore: Restore, assumes: tuple[Assumption, ...] | None = None) -> Known:
        why = (
            f"{name} was set back to checkpoint {restore.number}, before checkpoint {self.first.number} that lists it: its rows "
            "are written again, and a commit would write them twice"
        )
        return _by_restore(Answer.SET_BACK, why, restore, self.assumes if assumes is None else assumes)

    def restores_from_before(self) -> list[Restore]:
        """Return the restores since it was listed from a checkpoint before that, by its job or by another of the line."""
        heirs = (each.facts for each in self.rivals if each.standing is not Standing.BESIDE)
        every = (*self.restores, *(restore for facts in heirs for restore in facts.restores))
        since_ms = self.first.written_ms - CLOCK_SKEW_MS
        return [each for each in every if each.number < self.first.number and each.at_ms >= since_ms]

    def restored_to(self) -> tuple[Restore | None, bool]:
        """Return the last restore since it was listed that tells whether the work rests on it, and whether that is in doubt.

        Restored from a checkpoint that lists it: it does. From an earlier one: it does not, unless that one may hold it, too. A
        later checkpoint that does not list it may be of either line of work: what the job completed, it goes on behind.
        """
        numbers = {listing.number for listing in self.listings}
        last: Restore | None = None
        in_doubt = False
        for restore in self.restores:
            if restore.at_ms < self.first.written_ms - CLOCK_SKEW_MS:
                continue
            if restore.number in numbers or restore.number < self.first.number:
                last, in_doubt = restore, restore.number in self.may_hold - numbers
            elif last is not None and (last.number < self.first.number or self.reported() is None):
                in_doubt = True
        return last, in_doubt

    def completed(self) -> tuple[int, int, str] | None:
        """Return (number, epoch ms, proof) of a checkpoint that lists it and counts; None: none is known to count."""
        last, _ = self.restored_to()
        if last is not None and last.number >= self.first.number:
            return last.number, last.at_ms, "the job was restored from it"
        return self.reported()

    def reported(self) -> tuple[int, int, str] | None:
        """Return the same of what REST reported alone."""
        for listing in self.listings:
            seen = self._ended(listing, FlinkStatus.COMPLETED)
            if seen is not None and self.job is not None and self.job.counts(seen[0]):
                is_last = seen[0].kind.is_savepoint
                proof = "the job was stopped with it, and is finished" if is_last else "REST reported it as completed"
                return listing.number, seen[1], proof
        return None

    def in_store(self) -> tuple[int, int, str] | None:
        """Return the same of what the high-availability store says: a recovery goes on from the newest that it points to.

        That is so once no JobManager has the job: one that has it may go on from another checkpoint, where it does not know
        whether this one was stored. Where REST answers, or said that the job is over, REST tells.
        """
        stored = self.stored
        if stored is None or stored.is_held or self.polled or self.has_ended:
            return None
        for listing in self.listings:
            if stored.is_of(listing.number, listing.written_ms) and not (listing.is_gone or self.is_savepoint(listing)):
                proof = f"no JobManager has the job, and its high-availability store points to it ({stored.where})"
                return listing.number, stored.since_ms, proof
        return None

    def is_savepoint(self, listing: FlinkCommittables) -> bool:
        """Say whether a list is a savepoint's, by itself or as REST says."""
        seen = self._ended(listing, FlinkStatus.COMPLETED)
        return (listing.kind is not None and listing.kind.is_savepoint) or (
            seen is not None and seen[0].kind.is_savepoint
        )

    def failed(self) -> tuple[FlinkCheckpoint, int] | None:
        """Return the last checkpoint that lists it, and its end (epoch ms), where REST reported all of them as failed."""
        ends = [self._ended(listing, FlinkStatus.FAILED) for listing in self.listings]
        return None if None in ends else ends[-1]

    @property
    def first_not_failed(self) -> FlinkCommittables:
        """Return the first checkpoint that lists it and that REST did not report as failed; of all that failed, the first."""
        open_ = (listing for listing in self.listings if self._ended(listing, FlinkStatus.FAILED) is None)
        return next(open_, self.first)

    def _ended(self, listing: FlinkCommittables, status: FlinkStatus) -> tuple[FlinkCheckpoint, int] | None:
        return self.job.ended(listing, status) if self.job is not None else None


def _by_restore(answer: Answer, why: str, restore: Restore, assumes: tuple[Assumption, ...]) -> Known:
    at_ms = restore.at_ms
    return Known(answer, why, number=restore.number, at_ms=at_ms, restored_ms=at_ms, assumes=assumes)
