"""Every setting of a pipeline: typed, checked once at start, documented in docs/settings.md."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from indoubt.lifecycle import settings_file
from indoubt.lifecycle.errors import SettingsError
from indoubt.pipeline.config.sink_settings import KAFKA, UPDATE, SinkSettings, check_output_mode, read_sinks, setting

TASK_RECORDS = 20_000
"""What one task reads and writes about as fast as several, which need a transaction each."""
ROOT = Path(__file__).absolute().parents[3]
"""Where the packages are imported from: a checkout, or what they are installed in."""
_CHECKOUT = (ROOT / "ivy.xml").exists()
KEPT = ROOT / ".run" if _CHECKOUT else Path(sys.prefix) / "var" / "indoubt"
"""What is made once and used by each start; beside the interpreter that it is made for."""
SPARK_CLASSES = KEPT / "classes" / "spark.jsa"
"""Class data archive of Spark's JVM, which starts faster with it; where it is missing it starts without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings(SinkSettings):
    """What a pipeline is and how it runs; ``name`` on the command line is ``--name`` with dashes."""

    job: str = setting("job to run: ip_count, passthrough or word_count; or MODULE:FUNCTION of your own")
    source: str = setting("topic to read; a job of your own need not have one", default="")
    output_mode: str = setting(
        "of a job of your own: append or update, where rows replace earlier ones", default="append"
    )
    max_offsets_per_trigger: int = setting(
        "records read per checkpoint at most; a bound is needed, because all of a batch is in doubt at once",
        default=1_000_000,
    )
    starting_offsets: str = setting("where a new pipeline starts: earliest or latest", default="earliest")
    tasks: int = setting(
        "tasks of a batch at most, which read the source or aggregate; each has a transaction", default=2
    )
    task_records: int = setting(
        "records of a batch for each of which it has one more task, so that a small batch has one transaction",
        default=TASK_RECORDS,
    )
    restart_attempts: int = setting("restarts in a row before the pipeline gives up", default=3)
    restart_delay_ms: int = setting("pause before a restart", default=10_000)
    orders_topic: str = setting(
        "topic from which the supervisor takes operators' orders to restart or stop; empty: it takes none",
        default="pipeline_orders",
    )
    spark_master: str = setting(
        "Spark master; local[N] writes N slots at once, and a slot mostly waits: take one for each partition",
        default="local[4]",
    )
    spark_jars: str = setting(
        "directory of more jars for Spark, such as those of an object store; empty: none",
        default=str(KEPT / "jars" / "spark") if _CHECKOUT else "",
    )
    status_file: str = setting("file that always says how the pipeline stands, as JSON; empty: none", default="")

    def __post_init__(self) -> None:
        if not self.source and not self.is_own_job:
            raise SettingsError("missing: source (--source)")
        if any(sink.resource_manager == KAFKA and sink.target == self.source for sink in read_sinks(self.sink)):
            raise SettingsError(f"source and sink are both {self.source!r}: the pipeline would read what it writes")
        # By its name: a dataclass with slots is another class than the one that super() without arguments means.
        SinkSettings.__post_init__(self)
        check_reading(self.starting_offsets, self.max_offsets_per_trigger, self.tasks, self.task_records)
        check_output_mode(self.output_mode)

    @property
    def is_own_job(self) -> bool:
        """Say whether the job is a function of the user's."""
        return ":" in self.job

    @property
    def updates(self) -> bool:
        """Say whether rows of a job of the user's replace earlier ones."""
        return self.output_mode == UPDATE

    def to_json(self) -> str:
        """Return all settings as a JSON object."""
        return json.dumps(dataclasses.asdict(self))


def check_reading(starting_offsets: str, max_offsets_per_trigger: int, tasks: int, task_records: int) -> None:
    """Return when a source can be read so. Raises SettingsError naming what is wrong."""
    if max_offsets_per_trigger <= 0:
        raise SettingsError(
            "max_offsets_per_trigger must be positive: without a bound one batch can outlive its timeout"
        )
    if starting_offsets not in ("earliest", "latest"):
        raise SettingsError(f"starting_offsets is {starting_offsets!r}; it takes earliest or latest")
    for name, value in (("tasks", tasks), ("task_records", task_records)):
        if value <= 0:
            raise SettingsError(f"{name} is {value}; it must be positive")


def add_file(
    given: Mapping[str, Any], arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of flags (``given``) and, where they leave one open, of the file's table ``[pipeline]``.

    The second value says where in the file a setting stands. Raises SettingsError that names setting and file.
    """
    table = settings_file.read("pipeline", arguments, environment, {})
    kinds = get_type_hints(PipelineSettings)
    unknown = [key for key in table.keys if key not in kinds]
    if unknown:
        raise SettingsError(
            f"{table.origin(unknown[0])} is not a setting of the pipeline; it knows: {', '.join(kinds)}"
        )
    values = {key: table.text(key) for key in table.keys}
    return {**values, **given}, {key: table.origin(key) for key in values.keys() - given.keys()}


CRASH_POINTS_VARIABLE = "INDOUBT_CRASH_POINTS"
"""Environment variable that arms crash points (for tests and the demo); see crash_points.py."""


def crash_points_directory() -> str:
    """Return the directory of armed crash points, or an empty text when there is none."""
    return os.environ.get(CRASH_POINTS_VARIABLE, "")
