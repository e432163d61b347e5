"""What is damaged in Spark's two logs, as after a power cut, and what a person does about it.

Of the newest planned batch N, Spark needs offsets/N and offsets/N-1, and the newest file of commits/. It writes none of them
through to the disk, so after a power cut a file may be empty, half there or gone, though later ones of the other log are whole.
What may be taken away follows from what is in the sink: any batch may be planned again of which nothing was decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from indoubt.lifecycle.counted_nouns import counted
from indoubt.lifecycle.decision_ledger import DecisionLedger
from indoubt.lifecycle.decisions import Settled
from indoubt.lifecycle.errors import MalformedRecord, SettingsError, UnknownVersion
from indoubt.pipeline.checkpoints.checkpoint_directory import CheckpointDirectory
from indoubt.resource_managers.spark_log_file import COMMITS, OFFSETS, SparkLogFile

FINISHED = 'v1 and {"nextBatchWatermarkMs":0}'
"""What a file of commits/ must hold: Spark takes the later one of this watermark and that of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a decision log says is in the sink: nothing of a batch above ``last``, its last decided one.

    ``is_settled``: all of the last batch is committed, by the log.
    """

    last: int
    is_settled: bool


def written_by(ledger: DecisionLedger, checkpoint_id: str) -> Written | None:
    """Return what the log says of a checkpoint id that writes exactly once.

    None where it decided nothing yet: earlier batches may be of another checkpoint id, or of a plain query.
    """
    last = ledger.last_decided_batch(checkpoint_id)
    if last is None:
        return None
    handles = [handle for decision in ledger.commits_of(checkpoint_id, last)[-1:] for handle in decision.handles]
    outcomes = [ledger.outcome(handle.key) for handle in handles]
    settled = all(outcome is not None and outcome.settled is Settled.COMMITTED for outcome in outcomes)
    return Written(last=last, is_settled=bool(outcomes) and settled)


def check_logs(directory: CheckpointDirectory, written: Written | None) -> None:
    """Return when Spark can go on from its logs. Raises SettingsError that says what is damaged and what to do.

    ``written``: None where no decision log knows what is in the sink. Raises also what CheckpointDirectory does.
    """
    logs = _Logs(directory)
    damage = logs.damage()
    if damage:
        raise SettingsError(
            f"checkpoint directory {directory.location.for_spark} is damaged, as after a power cut: {', '.join(damage)}. "
            f"Nothing was started. {logs.repair(written)}"
        )


@dataclass(slots=True)
class _Repair:
    """What to do so that a batch is the newest one, in the order in which it is said."""

    removed: list[tuple[str, int]]
    finished: int | None = None
    copied: int | None = None

    def text(self, directory: CheckpointDirectory) -> str:
        def name(folder: str, batch: int) -> str:
            # Hadoop would compare a file with the checksum of the damaged one.
            return f"{folder}/{batch}" + (f" (and {folder}/.{batch}.crc)" if directory.location.path else "")

        steps = []
        if self.removed:
            steps.append("remove " + ", ".join(name(*file) for file in self.removed))
        if self.finished is not None:
            checksum = f", and remove {COMMITS}/.{self.finished}.crc" if directory.location.path else ""
            steps.append(f"write two lines into {COMMITS}/{self.finished}, {FINISHED}{checksum}")
        if self.copied is not None:
            before = self.copied - 1
            checksum = f", and remove {OFFSETS}/.{before}.crc" if directory.location.path else ""
            steps.append(f"copy {OFFSETS}/{self.copied} to {OFFSETS}/{before}{checksum}")
        return "Do this, then start again: " + "; ".join(steps) + "."


class _Logs:
    def __init__(self, directory: CheckpointDirectory) -> None:
        self._directory = directory
        # This order: of a batch that another run plans and finishes meanwhile, the offsets are seen.
        self._committed = directory.numbers(COMMITS)
        self._planned = directory.numbers(OFFSETS)
        self._read: dict[tuple[str, int], SparkLogFile | str] = {}

    def damage(self) -> list[str]:
        """Return what is wrong with the files that Spark reads at its start. Raises SettingsError for a newer Spark's."""
        needed = []
        if self._planned:
            newest = self._planned[-1]
            needed += [(OFFSETS, batch) for batch in (newest - 1, newest) if batch >= 0]
            if newest not in self._committed and self._newest_version(self._committed) > 1:
                # It has the ids of the files with the state that the newest batch begins with.
                needed.append((COMMITS, newest - 1))
        if self._committed:
            newest = self._committed[-1]
            needed.append((COMMITS, newest))
            if newest > max(self._planned, default=-1):
                needed.append((OFFSETS, newest))
        return list(dict.fromkeys(error for folder, batch in needed if (error := self._error(folder, batch))))

    def repair(self, written: Written | None) -> str:
        """Return what to do: the newest batch that Spark can go on from, if nothing of a later one is in the sink."""
        last = max(self._committed, default=-1) if written is None else written.last
        for newest in reversed(self._planned):
            if newest < last:
                break
            repair = self._repair(newest, written)
            if repair is not None:
                return f"{repair.text(self._directory)} {self._why(newest, repair, written)}"
        if last < 0 and self._planned[:1] == [0]:
            said = self._no_decision(self._planned, written)
            return f"Remove the folders {OFFSETS}, {COMMITS} and state, then start again. {said}"
        known = "finished" if written is None else "decided, by the decision log"
        return (
            f"Restore these files as they were, from a backup or snapshot of the directory: batches up to {last} are {known}, "
            "and where they end is said nowhere else. Remove nothing. (A new directory would write every row of the source "
            "again.)"
        )

    def _repair(self, newest: int, written: Written | None) -> _Repair | None:
        """Return what makes this batch the newest one, None where Spark could not go on from it."""
        if self._error(OFFSETS, newest):
            return None
        is_last = written is not None and written.last == newest
        settled = written is not None and written.last == newest and written.is_settled
        has_start = newest == 0 or not self._error(OFFSETS, newest - 1)
        kept = [batch for batch in self._committed if batch <= newest]
        if not has_start and newest not in kept and not settled:
            return None
        repair = _Repair([(OFFSETS, batch) for batch in self._planned if batch > newest])
        repair.removed += [(COMMITS, batch) for batch in self._committed if batch > newest]
        has_state_ids = self._newest_version(kept) > 1
        if not has_start:
            repair.copied = newest
            if self._error(COMMITS, newest):
                repair.finished = newest
        elif newest in kept and self._error(COMMITS, newest) and (settled or (is_last and has_state_ids)):
            repair.removed.append((COMMITS, kept.pop()))
        if repair.finished is None and kept and self._error(COMMITS, kept[-1]):
            repair.finished = kept[-1]
        if has_state_ids and (repair.finished is not None or not {newest - 1, newest} & set(kept)):
            # What a file says of the state's files cannot be made again.
            return None
        return repair

    def _why(self, newest: int, repair: _Repair, written: Written | None) -> str:
        said = []
        if above := list(dict.fromkeys(batch for _, batch in repair.removed if batch > newest)):
            said.append(self._no_decision(above, written))
        if (COMMITS, newest) in repair.removed:
            said.append(
                f"Batch {newest} is decided in the decision log: Spark runs it again, and its rows are compared with what is "
                "committed, not written again."
            )
        if repair.finished is not None or repair.copied is not None:
            said.append(f"Batch {newest if repair.copied else repair.finished} is finished, and is not run again.")
        return " ".join(said)

    def _no_decision(self, batches: list[int], written: Written | None) -> str:
        which = f"{counted(len(batches), 'batch', 'batches')} ({', '.join(map(str, batches))})"
        if written is None:
            return (
                f"Spark plans {which} again. No decision log says what is in the sink: rows of it that are there already are "
                "written once more, unless they are taken out or the files are restored from a backup instead."
            )
        finished = any(batch in self._committed for batch in batches)
        otherwise = (
            " If it was finished under another guarantee than exactly_once, its rows would be written once more: then restore "
            "the files from a backup instead."
        )
        return (
            f"The decision log has no decision of {which}: nothing of it is in the sink, and Spark plans it again."
            f"{otherwise if finished else ''}"
        )

    def _newest_version(self, committed: list[int]) -> int:
        """Return the version of the newest whole file of commits/; 1 where there is none."""
        for batch in reversed(committed):
            self._error(COMMITS, batch)
            file = self._read[COMMITS, batch]
            if isinstance(file, SparkLogFile):
                return file.version
        return 1

    def _error(self, folder: str, batch: int) -> str:
        """Return what is wrong with a file, empty for a whole one. Raises SettingsError for a newer Spark's."""
        if (folder, batch) not in self._read:
            try:
                self._read[folder, batch] = self._directory.log_file(folder, batch) or f"{folder}/{batch} is missing"
            except UnknownVersion as error:
                raise SettingsError(
                    f"checkpoint directory {self._directory.location.for_spark}: {error}. Go on with the Spark that wrote it, "
                    "or restore a state of the directory from before"
                ) from None
            except MalformedRecord as error:
                self._read[folder, batch] = str(error)
        found = self._read[folder, batch]
        return found if isinstance(found, str) else ""
