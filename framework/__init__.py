"""Panekeeper's public surface, sorted: declare a window, say what it answers, start the job.

Importing this costs no Spark: `session` and `windowed` are loaded when first used, so declarations, `play()` and the
pure core can be used and tested without a JVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from framework import agg
from framework.durations import days, hours, minutes, seconds
from framework.errors import (
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
from framework.events import Event, EventType, Pane, Reason, Timing
from framework.operator import Emit, Listener, Operator
from framework.policies import Count, Delta, PartitionAge, PartitionCount, Punctuation, Time, TupleCount
from framework.windows import Batched, Sliding, TimeInterval, Tumbling
from state.handler import CheckpointReason, OpenPartition, StateContext, StateHandler

if TYPE_CHECKING:
    from framework.engine.job import BatchReport, Job
    from framework.engine.session import session
    from framework.engine.status import Drained, Status
    from framework.multiport import ports
    from framework.stream import windowed

__all__ = [
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
    "agg",
    "days",
    "hours",
    "minutes",
    "ports",
    "seconds",
    "session",
    "windowed",
]

_ON_SPARK = {
    "BatchReport": "framework.engine.job",
    "Drained": "framework.engine.status",
    "Job": "framework.engine.job",
    "Status": "framework.engine.status",
    "ports": "framework.multiport",
    "session": "framework.engine.session",
    "windowed": "framework.stream",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module 'framework' has no attribute {name!r}")
    return getattr(import_module(_ON_SPARK[name]), name)
