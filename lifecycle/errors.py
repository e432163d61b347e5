"""Every error of the project, in one tree.

IndoubtError
├── SettingsError             a setting is missing, unknown or wrong
├── MalformedRecord           a record read from outside cannot be understood
│   └── UnknownVersion        … because its format version is newer than this program
├── ResourceManagerError      a broker or database refused or could not be reached
│   ├── Unreachable           … no answer within the limit
│   ├── MissingTopic          … a topic that is needed does not exist
│   ├── RecordsGone           … records were deleted before they were read
│   ├── RecordTooLarge        … a record is larger than the topic takes
│   └── Fenced                … a newer producer took this transactional id
├── DecisionLogUnreadable     the decision log cannot be read, so nothing may be decided
├── DecisionMissing           a batch was committed of which the decision log has no decision: it lost its end
├── DecisionVoid              another process decided first, or a newer run started
├── NotDeterministic          a replayed batch does not hold the rows it held before
├── ZombieWriter              this task belongs to an attempt that was superseded
├── CheckpointUnwritable      the checkpoint directory cannot be written
└── OrderRefused              an operator's order is not safe, or the evidence changed
"""

from __future__ import annotations


class IndoubtError(Exception):
    """Base of every error that indoubt raises on purpose."""


class SettingsError(IndoubtError):
    """A setting is missing, unknown or wrong; the message names it and says what it takes."""


class MalformedRecord(IndoubtError):
    """A record read from outside cannot be understood; the message says which part."""


class UnknownVersion(MalformedRecord):
    """A record has a format version that this program does not know."""


class ResourceManagerError(IndoubtError):
    """A broker or database refused an operation or could not be reached."""


class Unreachable(ResourceManagerError):
    """There was no answer within the limit; the message names the address and the limit."""


class MissingTopic(ResourceManagerError):
    """A topic that is needed does not exist; the message names it and how to create it."""


class RecordsGone(ResourceManagerError):
    """Records of the source were deleted before they were read; the message names the partition and the offset."""


class RecordTooLarge(ResourceManagerError):
    """A record is larger than the client or the topic takes; the message names its size and the setting."""


class Fenced(ResourceManagerError):
    """A newer producer took this transactional id."""


class DecisionLogUnreadable(IndoubtError):
    """The decision log cannot be read: until it can, nothing may be decided."""


class DecisionMissing(IndoubtError):
    """A batch was committed of which the decision log has no decision: it lost its end, and nothing is written again."""


class DecisionVoid(IndoubtError):
    """This decision does not count: another process decided first, or a newer run of the same prefix started."""


class NotDeterministic(IndoubtError):
    """A replayed batch does not hold the rows that it held before, so lost slots cannot be distinguished from committed ones."""


class ZombieWriter(IndoubtError):
    """This task belongs to an attempt that a newer one has superseded: it may not write."""


class CheckpointUnwritable(IndoubtError):
    """The checkpoint directory cannot be written; the message names it and the cause."""


class OrderRefused(IndoubtError):
    """An operator's order is not safe, or what it rests on has changed since it was shown."""
