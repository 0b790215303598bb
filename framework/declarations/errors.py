"""Every error Panekeeper raises on purpose; one class for each decision a user can make.

PanekeeperError
|-- DeclarationError (also ValueError)   a declaration is impossible: the message says what to change
|-- SetupError                           Java, a package or a setting is missing: the message says what to install
|-- InputError                           a row or firing cannot be computed, and the job fails on such
|-- EventError                           an event of this type does not have the property that was read
|-- LifecycleError                       a method of a state handler did what only another may do
|-- CheckpointError                      this checkpoint cannot be used by this job
|   |-- ForeignCheckpoint                ... it was not written by Panekeeper, or by another job
|   |-- IncompatibleCheckpoint           ... the declaration changed since it was written
|   |-- CheckpointInUse                  ... another job runs on it
|   |-- JobNotRunning                    ... no job runs on it that could execute the command
|   |-- JobFinished                      ... it was flushed: its windows are closed for good
|   `-- NotConfirmed                     ... state would be discarded, and that was not confirmed
|-- SinkError                            an output table cannot take the results
|   |-- OutputNotWritable                ... the folder is read-only, full, or no Delta table
|   `-- SchemaMismatch                   ... it has other columns
|-- StateError                           stored state cannot be used
|   |-- CorruptState                     ... damaged or missing: restore a savepoint
|   `-- StateVersionError                ... written by another version
|-- DrainTimeout                         a job is still draining: wait longer, or see what its batch does
|-- JobFailed                            the running job failed with an error of no other class here
`-- SavepointError                       a savepoint cannot be made, read or restored: see `panekeeper.recovery.errors`
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

from panekeeper.state.errors import (
    CheckpointError,
    CorruptState,
    LifecycleError,
    PanekeeperError,
    StateError,
    StateVersionError,
)

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
    "as_utf8",
    "note_user_frames",
    "user_traceback",
    "utf8_errors",
    "without_own_frames",
]

P = ParamSpec("P")
R = TypeVar("R")


class DeclarationError(PanekeeperError, ValueError):
    """A window, aggregate, column or option is impossible. Raised where it is declared; says what to change."""


class SetupError(PanekeeperError):
    """Java, Python, a package or a session setting is missing or wrong. The message says what to install or set."""


class InputError(PanekeeperError):
    """A row cannot be processed, or a firing computed, and the job fails on such errors (`on_error="fail"`)."""


class EventError(PanekeeperError):
    """An event of this type does not have the property that was read; the message names both."""


class ForeignCheckpoint(CheckpointError):
    """The checkpoint was written by another job, or not by Panekeeper at all."""


class IncompatibleCheckpoint(CheckpointError):
    """The declaration of the windows changed since the checkpoint was written; lists the differing fields."""


class CheckpointInUse(CheckpointError):
    """Another job runs on this checkpoint, or is being started on it; names the process. Two jobs would corrupt it."""


class JobFinished(CheckpointError):
    """The checkpoint was flushed: its windows are closed for good and take no more rows."""


class JobNotRunning(CheckpointError):
    """No job runs on this checkpoint that could execute the command."""


class NotConfirmed(CheckpointError):
    """State would be discarded, and that was not confirmed; names what would be discarded."""


class SinkError(PanekeeperError):
    """An output table cannot take the results. The batch is not committed and will be run again."""


class OutputNotWritable(SinkError):
    """The output folder is read-only or full, or holds something that is not a Delta table."""


class SchemaMismatch(SinkError):
    """An existing Delta table has other columns than the results; lists them."""


class DrainTimeout(PanekeeperError):
    """A job did not end within the timeout. It continues to drain, and stays resumable."""


class JobFailed(PanekeeperError):
    """The running job failed with an error of no other class here; that one is its `cause`."""


def without_own_frames(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors of ours show the line that called it, and no code of ours: the message says all.

    Nor do they show what was raised before, often a whole stack of Java's; that is the `cause` of the error.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (PanekeeperError, KeyboardInterrupt) as error:  # the latter from `await_end`
            if isinstance(error, PanekeeperError):
                error.cause = error.cause or error.__cause__
            error.__cause__ = error.__traceback__ = None
            raise  # adds no frame, not even this one

    return called


def user_traceback(error: BaseException) -> str:
    """Return the traceback of an error in a function of the user's: all frames but those of Panekeeper.

    So are those of its causes. An error that Panekeeper itself raises about what the function returned has no frames.
    """
    shown = traceback.TracebackException.from_exception(error)
    pairs: list[tuple[BaseException | None, traceback.TracebackException | None]] = [(error, shown)]
    while pairs:
        raised, text = pairs.pop()
        if raised is None or text is None:
            continue
        text.stack = _of_the_user(raised, text.stack)
        if not text.stack:
            text.stack = None  # type: ignore[assignment]  # no heading without frames
        if isinstance(raised, PanekeeperError):
            text.__notes__ = None  # they have frames that are shown here
        pairs += [(raised.__cause__, text.__cause__), (raised.__context__, text.__context__)]
        if isinstance(raised, BaseExceptionGroup):
            pairs += zip(raised.exceptions, text.exceptions or (), strict=False)
    return "".join(shown.format())


def note_user_frames(ours: PanekeeperError, raised: BaseException) -> None:
    """Note in an error of ours where code of the user's raised what it tells: the frames of `user_traceback`.

    A note is printed below the message. It is a part of the text by which an error leaves Spark's worker, where the
    frames themselves are lost, as they are by `without_own_frames`.
    """
    frames = _of_the_user(raised, traceback.extract_tb(raised.__traceback__)).format()
    if frames:
        ours.add_note("".join(frames).rstrip("\n"))


def _of_the_user(raised: BaseException, stack: traceback.StackSummary) -> traceback.StackSummary:
    frames = [frame for frame, _ in traceback.walk_tb(raised.__traceback__)]
    kept = [summary for summary, frame in zip(stack, frames, strict=False) if not _is_own(frame)]
    return traceback.StackSummary.from_list(kept)


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("panekeeper.")


def as_utf8(text: str) -> str:
    """Return a text that UTF-8 can represent: half a surrogate pair, which JSON may hold, becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextmanager
def utf8_errors() -> Iterator[None]:
    """Raise errors with texts that UTF-8 can represent.

    Spark's Python worker sends the traceback of an error as UTF-8. If it cannot, nobody reports the error, and the
    query waits for the worker for ever.

    Raises:
        PanekeeperError: in place of an error whose text cannot be changed otherwise; its text is the whole traceback.
    """
    try:
        yield
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        if as_utf8(text) == text:
            raise
        if not isinstance(error, PanekeeperError):
            raise PanekeeperError(as_utf8(text)) from None
        sent = type(error)(as_utf8(str(error)))
        for note in getattr(error, "__notes__", []):
            sent.add_note(as_utf8(note))
        raise sent from None


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Return `; did you mean 'x'?` with the name that is most alike, empty if none is.

    Args:
        name: the name that does not exist.
        names: those that do.

    >>> did_you_mean("cariier", ["carrier", "delay"])
    "; did you mean 'carrier'?"
    >>> did_you_mean("x", ["carrier", "delay"])
    ''
    """
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
