"""Topics by their ids: one that was deleted and made again under its name is another one, and no offset of the old counts in it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

from lifecycle.errors import SettingsError
from lifecycle.resource_manager_kinds import KAFKA
from pipeline.checkpoints.checkpoint_directory import FILE, CheckpointDirectory, CheckpointIdentity

TopicIds = Mapping[str, Collection[str]]
"""The ids of topics by their names: several where topics of one name are read in several clusters."""


def refuse_other_topics(
    directory: CheckpointDirectory, kept: CheckpointIdentity, sinks: Mapping[str, str], sources: TopicIds
) -> None:
    """Return unless a topic is another one than when the directory was last used. Raises SettingsError.

    ``sinks`` are what each sink is, by resource manager.
    """
    file = f"{directory.location.for_spark}/{FILE}"
    for topic, ids in sources.items():
        before = kept.sources.get(topic, ids)
        if not set(ids) <= set(before):
            raise SettingsError(
                f"{_another(f'source topic {topic!r}', before, ids)} The offsets in the checkpoint directory count in the old "
                "one: records of the new one would be left out. To read the new one from its start, start with a new "
                "--checkpoint and --starting-offsets earliest: what the job keeps (counts, windows) begins anew, and a record "
                "that was written before and is in the new topic too is written again. That goes for records of the new topic "
                "as well, if the pipeline was running when the topic was made. Only if the new topic holds the same records at "
                f'the same offsets (it was restored): remove {json.dumps(topic)} from "sources" in {file}, and start'
            )
    before_, now = kept.sinks.get(KAFKA.name, ""), sinks.get(KAFKA.name, "")
    if before_ and now and before_ != now:
        raise SettingsError(
            f"{_another(f'the topic of sink {kept.sink!r}', [before_], [now])} What was written to the old one is gone with it. "
            f'To write to the new one what comes next, remove {json.dumps(KAFKA.name)} from "sinks" in {file}, and start. (A new '
            "checkpoint directory would write every row of the source again, to every sink.)"
        )


def keep_sources(directory: CheckpointDirectory, sources: TopicIds) -> None:
    """Keep the ids of topics that are read for the first time. Raises SettingsError for one that is another one now."""
    kept = directory.read()
    if kept is None:
        return
    refuse_other_topics(directory, kept, {}, sources)
    wanted = with_sources(kept, sources)
    if wanted != kept:
        directory.replace(kept, wanted)


def with_sources(kept: CheckpointIdentity, sources: TopicIds) -> CheckpointIdentity:
    """Return the identity with the ids of topics that it does not know yet."""
    new = {topic: sorted(ids) for topic, ids in sources.items() if ids and topic not in kept.sources}
    return replace(kept, sources={**kept.sources, **new}) if new else kept


def _another(what: str, before: Collection[str], now: Collection[str]) -> str:
    return (
        f"{what} is another one than before (topic id {', '.join(sorted(now))}; it was {', '.join(sorted(before))}): it was "
        "deleted and made again, or this is another cluster."
    )
