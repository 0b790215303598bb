"""Panekeeper's public API: everything that a user imports, except the test kit in `panekeeper.testing`.

framework/    what a window is, and how a row passes through one: a link to the folder beside this one
recovery/     around a stop: savepoints, restore, upgrades, upkeep, settlements, drills: likewise
diagnostics/  what a job is asked: why, panes, replay, what if, the report: likewise
cli/          the command `panekeeper`: likewise
state/        persisted state: records, bytes, stores: likewise
testing.py  how is a window checked without Spark? `run`, `play`, `difference`
pytest_plugin.py  fixtures of a user's tests: `run`, `spark_job`, `kill_and_restart`

Importing this package loads nothing else. Each name is loaded when it is first used, so declarations and
`panekeeper.testing.play` work without Java, and a Python worker of Spark loads what it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from panekeeper.diagnostics.inspector.diff import diff
    from panekeeper.diagnostics.inspector.panes import panes, partitions
    from panekeeper.diagnostics.inspector.why import why
    from panekeeper.diagnostics.replay.capsule import capsule
    from panekeeper.diagnostics.replay.replay import Replay, replay
    from panekeeper.diagnostics.report.report import Report, report
    from panekeeper.diagnostics.what_if.advise import Advice, advise
    from panekeeper.diagnostics.what_if.trial import Trial, try_job
    from panekeeper.framework.builder.outputs import job
    from panekeeper.framework.builder.ports import ports
    from panekeeper.framework.builder.windowed import windowed
    from panekeeper.framework.declarations import aggregates as agg
    from panekeeper.framework.declarations.calendar import Calendar
    from panekeeper.framework.declarations.durations import Duration, days, hours, minutes, seconds
    from panekeeper.framework.declarations.errors import (
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
    from panekeeper.framework.declarations.events import Event, EventType, Pane, Reason, Timing
    from panekeeper.framework.declarations.firing import Every
    from panekeeper.framework.declarations.operator import Emit, Listener, Operator
    from panekeeper.framework.declarations.policies import (
        AllOf,
        AnyOf,
        Count,
        Delta,
        PartitionAge,
        PartitionCount,
        PartitionUse,
        Punctuation,
        Time,
        TupleCount,
        UserPolicy,
    )
    from panekeeper.framework.declarations.windows import (
        Batched,
        Cumulate,
        Session,
        Sliding,
        SlidingByRow,
        TimeInterval,
        Tumbling,
    )
    from panekeeper.framework.engine.job.backlog import Progress
    from panekeeper.framework.engine.job.job import Job
    from panekeeper.framework.engine.job.status import BatchReport, Drained, Status
    from panekeeper.framework.engine.metrics import MetricsEndpoint, publish_metrics, serve_metrics
    from panekeeper.framework.engine.session.session import session
    from panekeeper.framework.engine.user_sinks.kafka_sink import KafkaSink
    from panekeeper.framework.engine.user_sinks.protocol import Sink
    from panekeeper.recovery.errors import (
        ArchiveDenied,
        ArchiveError,
        ArchiveNotFound,
        ArchiveUnreachable,
        DamagedSavepoint,
        ForeignManifest,
        NewerSavepoint,
        NoSuchSavepoint,
        RowsGone,
        SavepointError,
        SavepointRefused,
        TableVersionLost,
        UntrustedSavepoint,
    )
    from panekeeper.recovery.restore.clone import clone
    from panekeeper.recovery.restore.restore import restore
    from panekeeper.recovery.savepoint.catalog import prune, savepoints, verify
    from panekeeper.recovery.savepoint.create import Savepoint, savepoint
    from panekeeper.recovery.settle.settle import Settlement, settle
    from panekeeper.recovery.storage.s3 import S3Options
    from panekeeper.recovery.upgrade.check import check_upgrade
    from panekeeper.recovery.upgrade.rescale import rescale
    from panekeeper.recovery.upkeep.maintain import Upkeep, maintain
    from panekeeper.state.handler import CheckpointReason, OpenPartition, StateContext, StateHandler

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "AllOf",
    "AnyOf",
    "ArchiveDenied",
    "ArchiveError",
    "ArchiveNotFound",
    "ArchiveUnreachable",
    "BatchReport",
    "Batched",
    "Calendar",
    "CheckpointError",
    "CheckpointInUse",
    "CheckpointReason",
    "CorruptState",
    "Count",
    "Cumulate",
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
    "Every",
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
    "Progress",
    "Punctuation",
    "Reason",
    "Replay",
    "Report",
    "RowsGone",
    "S3Options",
    "Savepoint",
    "SavepointError",
    "SavepointRefused",
    "SchemaMismatch",
    "Session",
    "Settlement",
    "SetupError",
    "Sink",
    "SinkError",
    "Sliding",
    "SlidingByRow",
    "StateContext",
    "StateError",
    "StateHandler",
    "StateVersionError",
    "Status",
    "TableVersionLost",
    "Time",
    "TimeInterval",
    "Timing",
    "Trial",
    "Tumbling",
    "TupleCount",
    "UntrustedSavepoint",
    "Upkeep",
    "UserPolicy",
    "__version__",
    "advise",
    "agg",
    "capsule",
    "check_upgrade",
    "clone",
    "days",
    "diff",
    "hours",
    "job",
    "maintain",
    "minutes",
    "panes",
    "partitions",
    "ports",
    "prune",
    "publish_metrics",
    "replay",
    "report",
    "rescale",
    "restore",
    "savepoint",
    "savepoints",
    "seconds",
    "serve_metrics",
    "session",
    "settle",
    "try_job",
    "verify",
    "why",
    "windowed",
]

_WHERE = {
    "panekeeper.framework.builder.outputs": "job",
    "panekeeper.framework.builder.ports": "ports",
    "panekeeper.framework.builder.windowed": "windowed",
    "panekeeper.framework.declarations.calendar": "Calendar",
    "panekeeper.framework.declarations.durations": "Duration days hours minutes seconds",
    "panekeeper.framework.declarations.errors": """
        CheckpointError CheckpointInUse CorruptState DeclarationError DrainTimeout EventError
        ForeignCheckpoint IncompatibleCheckpoint InputError JobFailed JobFinished JobNotRunning
        LifecycleError NotConfirmed OutputNotWritable PanekeeperError SchemaMismatch SetupError SinkError
        StateError StateVersionError
    """,
    "panekeeper.framework.declarations.events": "Event EventType Pane Reason Timing",
    "panekeeper.framework.declarations.firing": "Every",
    "panekeeper.framework.declarations.operator": "Emit Listener Operator",
    "panekeeper.framework.declarations.policies": """
        AllOf AnyOf Count Delta PartitionAge PartitionCount PartitionUse Punctuation Time TupleCount UserPolicy
    """,
    "panekeeper.framework.declarations.windows": "Batched Cumulate Session Sliding SlidingByRow TimeInterval Tumbling",
    "panekeeper.framework.engine.job.job": "Job",
    "panekeeper.framework.engine.job.backlog": "Progress",
    "panekeeper.framework.engine.job.status": "BatchReport Drained Status",
    "panekeeper.framework.engine.metrics": "MetricsEndpoint publish_metrics serve_metrics",
    "panekeeper.framework.engine.session.session": "session",
    "panekeeper.framework.engine.user_sinks.kafka_sink": "KafkaSink",
    "panekeeper.framework.engine.user_sinks.protocol": "Sink",
    "panekeeper.recovery.errors": """
        ArchiveDenied ArchiveError ArchiveNotFound ArchiveUnreachable DamagedSavepoint ForeignManifest
        NewerSavepoint NoSuchSavepoint RowsGone SavepointError SavepointRefused TableVersionLost
        UntrustedSavepoint
    """,
    "panekeeper.diagnostics.inspector.diff": "diff",
    "panekeeper.diagnostics.inspector.panes": "panes partitions",
    "panekeeper.diagnostics.inspector.why": "why",
    "panekeeper.diagnostics.report.report": "Report report",
    "panekeeper.diagnostics.replay.capsule": "capsule",
    "panekeeper.diagnostics.replay.replay": "Replay replay",
    "panekeeper.recovery.restore.clone": "clone",
    "panekeeper.recovery.restore.restore": "restore",
    "panekeeper.recovery.savepoint.catalog": "prune savepoints verify",
    "panekeeper.recovery.savepoint.create": "Savepoint savepoint",
    "panekeeper.recovery.settle.settle": "Settlement settle",
    "panekeeper.recovery.storage.s3": "S3Options",
    "panekeeper.recovery.upgrade.check": "check_upgrade",
    "panekeeper.recovery.upgrade.rescale": "rescale",
    "panekeeper.recovery.upkeep.maintain": "Upkeep maintain",
    "panekeeper.diagnostics.what_if.advise": "Advice advise",
    "panekeeper.diagnostics.what_if.trial": "Trial try_job",
    "panekeeper.state.handler": "CheckpointReason OpenPartition StateContext StateHandler",
}
"""Module -> the public names that it defines."""

_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "agg":
        value: Any = import_module("panekeeper.framework.declarations.aggregates")
    elif name in _MODULE_OF:
        value = getattr(import_module(_MODULE_OF[name]), name)
    else:
        from panekeeper.framework.declarations.errors import did_you_mean

        raise AttributeError(f"module 'panekeeper' has no attribute {name!r}{did_you_mean(name, __all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
