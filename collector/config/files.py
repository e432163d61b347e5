"""The configured directories of files sinks: where they are, under which names, and their resource managers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.resource_manager_kinds import FILES
from indoubt.resource_managers.checkpoint_location import CheckpointLocation
from indoubt.resource_managers.database.watched import WatchedResourceManager
from indoubt.resource_managers.registry import implementation

OPTION = "--files"
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)=(?P<where>.+)")


def read_files(given: Sequence[str]) -> dict[str, str]:
    """Return path or URI of ``DIR`` or ``NAME=DIR`` options by instance: ``files``, or ``NAME-files``.

    Raises SettingsError for two directories of one name, and one directory given twice.
    """
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        instance, where = (f"{named['name']}-{FILES.name}", named["where"]) if named else (FILES.name, text)
        if instance in found:
            raise SettingsError(
                f"{OPTION} {text}: there is a directory {instance!r} already; write NAME=DIR to tell them apart"
            )
        place = CheckpointLocation.read(where, what=f"{OPTION} directory").uri
        if place in places:
            raise SettingsError(f"{OPTION} {text}: {place} is {places[place]!r} already")
        found[instance], places[place] = where, instance
    return found


def managers(directories: Mapping[str, str]) -> dict[str, WatchedResourceManager]:
    """Return the resource manager of each directory, by instance. Without any, what writes files is not loaded."""
    return {instance: implementation(FILES)(where) for instance, where in directories.items()}
