"""Every error Panekeeper raises on purpose; one class for each decision a user can make.

PanekeeperError
|-- DeclarationError (also ValueError)   the program asks for something that cannot be: fix the declaration
|-- SetupError                           the machine lacks something: install what the line says
|-- InputError                           a row cannot be processed and the job was told to stop on it
|-- EventError                           an event was asked for what it has not got
|-- LifecycleError                       a state handler did what its method may not
|-- CheckpointError                      this checkpoint and this job do not belong together
|   |-- ForeignCheckpoint                ... it was not written by Panekeeper, or by another job
|   |-- IncompatibleCheckpoint           ... the declaration changed since it was written
|   |-- CheckpointInUse                  ... another job runs on it
|   |-- JobNotRunning                    ... no job runs on it that could do what was asked
|   |-- JobFinished                      ... it was flushed: its windows are closed for good
|   `-- NotConfirmed                     ... what was asked forgets something and was not confirmed
|-- SinkError                            an output table cannot take the results
|   |-- OutputNotWritable                ... the folder is read-only, full, or no Delta table
|   `-- SchemaMismatch                   ... it has other columns
|-- StateError                           stored state cannot be used
|   |-- CorruptState                     ... damaged or missing: restore a savepoint
|   `-- StateVersionError                ... written by another version
|-- DrainTimeout                         a job is still draining: wait on, or look at what holds it up
|-- JobFailed                            the running job ended with an error that has no better name
`-- SavepointError                       a savepoint cannot be made, read or restored: see `recovery.errors`
"""

from __future__ import annotations

from state.errors import CheckpointError, CorruptState, LifecycleError, PanekeeperError, StateError, StateVersionError

__all__ = [
    "CheckpointError",
    "CheckpointInUse",
    "CorruptState",
    "DeclarationError",
    "DrainTimeout",
    "EventError",
    "ForeignCheckpoint",
    "IncompatibleCheckpoint",
    "InputError",
    "JobFailed",
    "JobFinished",
    "JobNotRunning",
    "LifecycleError",
    "NotConfirmed",
    "OutputNotWritable",
    "PanekeeperError",
    "SchemaMismatch",
    "SetupError",
    "SinkError",
    "StateError",
    "StateVersionError",
]


class DeclarationError(PanekeeperError, ValueError):
    """A window, aggregate, column or option is declared in a way that cannot be. Raised at the declaration."""


class SetupError(PanekeeperError):
    """Java, Python, a package or a session setting is missing or wrong. One line says what to install or set."""


class InputError(PanekeeperError):
    """A row cannot be processed, and the job was asked to stop on bad rows (`on_bad="fail"`)."""


class EventError(PanekeeperError):
    """An event was asked for something that its type has not got; the message names it."""


class ForeignCheckpoint(CheckpointError):
    """The checkpoint was written by another job, or not by Panekeeper at all."""


class IncompatibleCheckpoint(CheckpointError):
    """The declaration of the windows changed since the checkpoint was written; lists the differing fields."""


class CheckpointInUse(CheckpointError):
    """Another job runs on this checkpoint, or is being started on it; names the process. Two would ruin it."""


class JobFinished(CheckpointError):
    """The checkpoint was flushed: its windows are closed for good and take no more rows."""


class JobNotRunning(CheckpointError):
    """No job runs on this checkpoint that could do what was asked of it."""


class NotConfirmed(CheckpointError):
    """What was asked forgets something, and nobody confirmed it; names what would be forgotten."""


class SinkError(PanekeeperError):
    """An output table cannot take the results. The batch is not committed and will be run again."""


class OutputNotWritable(SinkError):
    """The output folder is read-only or full, or holds something that is not a Delta table."""


class SchemaMismatch(SinkError):
    """An existing Delta table has other columns than the results; lists them."""


class DrainTimeout(PanekeeperError):
    """A job did not come to its end in the time given. It goes on draining, and stays resumable."""


class JobFailed(PanekeeperError):
    """The running job ended with an error that has no better name; the cause is attached."""
