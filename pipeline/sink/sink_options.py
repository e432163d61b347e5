"""What the sink's tasks and its coordinator need to know: it travels as Spark options, which are text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_type_hints

from indoubt.lifecycle.errors import SettingsError
from indoubt.lifecycle.guarantees import DeliveryGuarantee
from indoubt.pipeline.config.sink_settings import SinkSettings, files_access, make_resource_managers, pairs, read_sinks
from indoubt.pipeline.runtime.crash_points import CrashPoints, Steps
from indoubt.pipeline.runtime.event_sender import EventSender
from indoubt.pipeline.sink.replay import ReplayPlan
from indoubt.resource_managers.database.connection import DatabaseConnection
from indoubt.resource_managers.files.access import FilesAccess
from indoubt.resource_managers.global_transaction import ResourceManagers
from indoubt.resource_managers.kafka.connection import KafkaConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Options of ``format("two_phase_commit")``; pipeline.recovery.recovery makes them, once per run, before the query starts."""

    # Spark hides the values of options whose name holds "secret" (spark.redaction.regex), and so does our own repr.
    kafka_secret: str = field(repr=False)
    databases_secret: str = field(repr=False)
    files_secret: str = field(repr=False)
    sink: str
    prefix: str
    checkpoint_id: str
    attempt: int
    replay: str
    delivery_guarantee: str
    transaction_timeout_ms: int
    decisions_topic: str
    lifecycle_topic: str
    producer_properties: str
    crash_points: str = ""
    driver_pids: str = ""
    batch: int = -1
    """Only where the query does not tell its batch to the tasks itself: see data_source.write_update."""

    @classmethod
    def of(
        cls,
        settings: SinkSettings,
        connection: KafkaConnection,
        databases: Mapping[str, DatabaseConnection],
        *,
        checkpoint_id: str,
        attempt: int,
        plan: ReplayPlan | None,
    ) -> SinkOptions:
        """Return the options of one run."""
        shared = {f.name for f in dataclasses.fields(cls)} & {f.name for f in dataclasses.fields(settings)}
        return cls(
            **{name: getattr(settings, name) for name in shared},
            kafka_secret=connection.to_json(),
            databases_secret=json.dumps({name: database.to_json() for name, database in databases.items()}),
            files_secret=files_access(settings).to_json(),
            checkpoint_id=checkpoint_id,
            attempt=attempt,
            replay=plan.to_json() if plan else "",
        )

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SinkOptions:
        """Return the options as Spark hands them over. Raises SettingsError for a missing, unknown or wrong one."""
        kinds = get_type_hints(cls)
        # Spark adds its own (checkpointLocation, path); everything else is a slip of the pen.
        unknown = {name.lower() for name in options} - kinds.keys() - {"checkpointlocation", "path", "queryname"}
        if unknown:
            raise SettingsError(f"two_phase_commit has no option {sorted(unknown)}; it has: {', '.join(kinds)}")
        required = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        missing = required - {name.lower() for name in options}
        if missing:
            raise SettingsError(
                f"two_phase_commit is missing {sorted(missing)}: take the options from pipeline.recovery.recovery.recover(), "
                "which settles what earlier runs left before the query starts"
            )
        values = {name.lower(): value for name, value in options.items() if name.lower() in kinds}
        try:
            return cls(**{name: kinds[name](value) for name, value in values.items()})
        except ValueError as error:
            raise SettingsError(f"two_phase_commit: {error}") from None

    def to_spark(self) -> dict[str, str]:
        """Return the options for DataStreamWriter.options."""
        return {name: str(value) for name, value in dataclasses.asdict(self).items()}

    @property
    def guarantee(self) -> DeliveryGuarantee:
        """Return the delivery guarantee."""
        return DeliveryGuarantee.parse(self.delivery_guarantee)

    @property
    def plan(self) -> ReplayPlan | None:
        """Return what a replayed batch must write, or None when none was decided."""
        return ReplayPlan.from_json(self.replay)

    def steps(self) -> Steps:
        """Return what happens at the points of the protocol: nothing, unless tests or the demo arm one."""
        return CrashPoints(directory=self.crash_points, pids=tuple(int(pid) for pid in self.driver_pids.split()))

    def events(self) -> EventSender:
        """Return what sends this run's lifecycle events."""
        return EventSender(
            self.kafka(),
            self.lifecycle_topic,
            pipeline=self.prefix,
            checkpoint_id=self.checkpoint_id,
            attempt=self.attempt,
        )

    def kafka(self) -> KafkaConnection:
        """Return how to reach the brokers."""
        return KafkaConnection.from_json(self.kafka_secret)

    def resource_managers(self) -> ResourceManagers:
        """Return the resource managers that hold this sink's transactions, in the order of the setting ``sink``."""
        databases = {
            name: DatabaseConnection.from_json(text) for name, text in json.loads(self.databases_secret).items()
        }
        return make_resource_managers(
            read_sinks(self.sink),
            self.kafka(),
            databases,
            FilesAccess.from_json(self.files_secret),
            transaction_timeout_ms=self.transaction_timeout_ms,
            decisions_topic=self.decisions_topic,
            producer_properties=pairs(self.producer_properties),
        )
