"""Panekeeper's public API: everything that a user imports, except the test kit in `panekeeper.testing`.

testing.py  how is a window checked without Spark? `play`, `difference`, `batch_results`

Importing this package loads no pyspark and no boto3: `session`, `windowed` and all else that needs them is loaded on
first use, so declarations and `panekeeper.testing.play` work without Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from framework.declarations import aggregates as agg
from framework.declarations.durations import Duration, days, hours, minutes, seconds
from framework.declarations.errors import (
    CheckpointError,
    CheckpointInUse,
    CorruptState,
    DeclarationError,
    DrainTimeout,
    EventError,
    ForeignCheckpoint,
    IncompatibleCheckpoint,
    InputError,
    JobFailed,
    JobFinished,
    JobNotRunning,
    LifecycleError,
    NotConfirmed,
    OutputNotWritable,
    PanekeeperError,
    SchemaMismatch,
    SetupError,
    SinkError,
    StateError,
    StateVersionError,
)
from framework.declarations.events import Event, EventType, Pane, Reason, Timing
from framework.declarations.operator import Emit, Listener, Operator
from framework.declarations.policies import Count, Delta, PartitionAge, PartitionCount, Punctuation, Time, TupleCount
from framework.declarations.user_policy import PartitionUse, UserPolicy
from framework.declarations.windows import Batched, Sliding, TimeInterval, Tumbling
from recovery.errors import (
    ArchiveDenied,
    ArchiveError,
    ArchiveNotFound,
    ArchiveUnreachable,
    DamagedSavepoint,
    ForeignManifest,
    NewerSavepoint,
    NoSuchSavepoint,
    SavepointError,
    SavepointRefused,
    TableVersionLost,
    UntrustedSavepoint,
)
from state.handler import CheckpointReason, OpenPartition, StateContext, StateHandler

if TYPE_CHECKING:
    from framework.builder.ports import ports
    from framework.builder.windowed import windowed
    from framework.engine.job.job import Job
    from framework.engine.job.run_totals import BatchReport
    from framework.engine.job.status import Drained, Status
    from framework.engine.monitor.endpoint import MetricsEndpoint, serve_metrics
    from framework.engine.monitor.instruments import publish_metrics
    from framework.engine.session.session import session
    from framework.engine.user_sinks.kafka_sink import KafkaSink
    from framework.engine.user_sinks.protocol import Sink
    from recovery.restore.clone import clone
    from recovery.restore.restore import restore
    from recovery.savepoint.catalog import prune, savepoints, verify
    from recovery.savepoint.create import Savepoint, savepoint
    from recovery.storage.archive import Archive
    from recovery.storage.locations import register_archive
    from recovery.storage.s3_options import S3Options
    from recovery.upgrade.check import check_upgrade
    from recovery.upgrade.rescale import rescale
    from recovery.upkeep.maintain import maintain
    from recovery.upkeep.report import Upkeep

__version__ = "0.1.0"

__all__ = [
    "Archive",
    "ArchiveDenied",
    "ArchiveError",
    "ArchiveNotFound",
    "ArchiveUnreachable",
    "BatchReport",
    "Batched",
    "CheckpointError",
    "CheckpointInUse",
    "CheckpointReason",
    "CorruptState",
    "Count",
    "DamagedSavepoint",
    "DeclarationError",
    "Delta",
    "DrainTimeout",
    "Drained",
    "Duration",
    "Emit",
    "Event",
    "EventError",
    "EventType",
    "ForeignCheckpoint",
    "ForeignManifest",
    "IncompatibleCheckpoint",
    "InputError",
    "Job",
    "JobFailed",
    "JobFinished",
    "JobNotRunning",
    "KafkaSink",
    "LifecycleError",
    "Listener",
    "MetricsEndpoint",
    "NewerSavepoint",
    "NoSuchSavepoint",
    "NotConfirmed",
    "OpenPartition",
    "Operator",
    "OutputNotWritable",
    "Pane",
    "PanekeeperError",
    "PartitionAge",
    "PartitionCount",
    "PartitionUse",
    "Punctuation",
    "Reason",
    "S3Options",
    "Savepoint",
    "SavepointError",
    "SavepointRefused",
    "SchemaMismatch",
    "SetupError",
    "Sink",
    "SinkError",
    "Sliding",
    "StateContext",
    "StateError",
    "StateHandler",
    "StateVersionError",
    "Status",
    "TableVersionLost",
    "Time",
    "TimeInterval",
    "Timing",
    "Tumbling",
    "TupleCount",
    "UntrustedSavepoint",
    "Upkeep",
    "UserPolicy",
    "__version__",
    "agg",
    "check_upgrade",
    "clone",
    "days",
    "hours",
    "maintain",
    "minutes",
    "ports",
    "prune",
    "publish_metrics",
    "register_archive",
    "rescale",
    "restore",
    "savepoint",
    "savepoints",
    "seconds",
    "serve_metrics",
    "session",
    "verify",
    "windowed",
]

_LOADED_WHEN_USED = {
    "Archive": "recovery.storage.archive",
    "BatchReport": "framework.engine.job.run_totals",
    "Drained": "framework.engine.job.status",
    "Job": "framework.engine.job.job",
    "KafkaSink": "framework.engine.user_sinks.kafka_sink",
    "MetricsEndpoint": "framework.engine.monitor.endpoint",
    "S3Options": "recovery.storage.s3_options",
    "Savepoint": "recovery.savepoint.create",
    "Sink": "framework.engine.user_sinks.protocol",
    "Status": "framework.engine.job.status",
    "Upkeep": "recovery.upkeep.report",
    "check_upgrade": "recovery.upgrade.check",
    "clone": "recovery.restore.clone",
    "maintain": "recovery.upkeep.maintain",
    "ports": "framework.builder.ports",
    "prune": "recovery.savepoint.catalog",
    "publish_metrics": "framework.engine.monitor.instruments",
    "register_archive": "recovery.storage.locations",
    "rescale": "recovery.upgrade.rescale",
    "restore": "recovery.restore.restore",
    "savepoint": "recovery.savepoint.create",
    "savepoints": "recovery.savepoint.catalog",
    "serve_metrics": "framework.engine.monitor.endpoint",
    "session": "framework.engine.session.session",
    "verify": "recovery.savepoint.catalog",
    "windowed": "framework.builder.windowed",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'panekeeper' has no attribute {name!r}")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)


def __dir__() -> list[str]:
    return [*__all__]
