"""Panekeeper's public API: declare a window, say what it computes, start the job, and save and restore it.

Importing this package starts no Spark: `session`, `windowed` and whatever else needs pyspark is loaded when it is
first used, so declarations and `panekeeper.testing.play` work and can be tested without Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from framework.declarations import aggregates as agg
from framework.declarations.durations import days, hours, minutes, seconds
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
from framework.declarations.user_policy import UserPolicy
from framework.declarations.windows import Batched, Sliding, TimeInterval, Tumbling
from state.handler import CheckpointReason, OpenPartition, StateContext, StateHandler

if TYPE_CHECKING:
    from framework.builder.ports import ports
    from framework.builder.windowed import windowed
    from framework.engine.job.job import Job
    from framework.engine.job.run_totals import BatchReport
    from framework.engine.job.status import Drained, Status
    from framework.engine.session.session import session
    from recovery.errors import SavepointError
    from recovery.restore.clone import clone
    from recovery.restore.restore import restore
    from recovery.savepoint.catalog import prune, savepoints, verify
    from recovery.savepoint.create import savepoint
    from recovery.storage.archive import Archive
    from recovery.storage.locations import register_archive
    from recovery.storage.s3_options import S3Options
    from recovery.upgrade.rescale import rescale

__version__ = "0.1.0"

__all__ = [
    "Archive",
    "BatchReport",
    "Batched",
    "CheckpointError",
    "CheckpointInUse",
    "CheckpointReason",
    "CorruptState",
    "Count",
    "DeclarationError",
    "Delta",
    "DrainTimeout",
    "Drained",
    "Emit",
    "Event",
    "EventError",
    "EventType",
    "ForeignCheckpoint",
    "IncompatibleCheckpoint",
    "InputError",
    "Job",
    "JobFailed",
    "JobFinished",
    "JobNotRunning",
    "LifecycleError",
    "Listener",
    "NotConfirmed",
    "OpenPartition",
    "Operator",
    "OutputNotWritable",
    "Pane",
    "PanekeeperError",
    "PartitionAge",
    "PartitionCount",
    "Punctuation",
    "Reason",
    "S3Options",
    "SavepointError",
    "SchemaMismatch",
    "SetupError",
    "SinkError",
    "Sliding",
    "StateContext",
    "StateError",
    "StateHandler",
    "StateVersionError",
    "Status",
    "Time",
    "TimeInterval",
    "Timing",
    "Tumbling",
    "TupleCount",
    "UserPolicy",
    "__version__",
    "agg",
    "clone",
    "days",
    "hours",
    "minutes",
    "ports",
    "prune",
    "register_archive",
    "rescale",
    "restore",
    "savepoint",
    "savepoints",
    "seconds",
    "session",
    "verify",
    "windowed",
]

_LOADED_WHEN_USED = {
    "BatchReport": "framework.engine.job.job",
    "Drained": "framework.engine.job.status",
    "Job": "framework.engine.job.job",
    "Status": "framework.engine.job.status",
    "Archive": "recovery.storage.archive",
    "S3Options": "recovery.storage.s3_options",
    "SavepointError": "recovery.errors",
    "clone": "recovery.restore.clone",
    "prune": "recovery.savepoint.catalog",
    "register_archive": "recovery.storage.locations",
    "rescale": "recovery.upgrade.rescale",
    "restore": "recovery.restore.restore",
    "savepoint": "recovery.savepoint.create",
    "savepoints": "recovery.savepoint.catalog",
    "verify": "recovery.savepoint.catalog",
    "ports": "framework.builder.ports",
    "session": "framework.engine.session.session",
    "windowed": "framework.builder.windowed",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'panekeeper' has no attribute {name!r}")
    return getattr(import_module(_LOADED_WHEN_USED[name]), name)
