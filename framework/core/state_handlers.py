"""Calls of the state handlers of one key group: which method, in which order, with what they wrote before.

The rule is docs/semantics.md section 7.

    begin       reset(last checkpoint) for a group that has one; reset_to_initial_state() if the job ran before and no
                checkpoint of it was ever completed; nothing at the very first start
    retire      the checkpoint before the last one is no longer needed: the last one is committed, or the batch after
                it would not run. So it is the first call after the reset
    drain       drain all, [prepare all that are non-blocking]
    checkpoint  checkpoint all; what they wrote is stored
    close       the instances are not used again

The windows of the group act before the handlers, in port order: they were restored when `begin` is called, have
delivered their outstanding evictions when `drain` is, and are stored when `checkpoint` is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from panekeeper.framework.declarations.durations import to_datetime
from panekeeper.framework.declarations.errors import PanekeeperError, note_user_frames
from panekeeper.framework.declarations.methods import unwanted_result
from panekeeper.state.errors import CorruptState, LifecycleError
from panekeeper.state.handler import (
    CheckpointReason,
    HandlerState,
    OpenPartition,
    StateContext,
    StateHandler,
    WindowControl,
    require_readable,
)
from panekeeper.state.records import HANDLERS, LifecycleRecord
from panekeeper.state.store import KeyGroupStore

_SEGMENT = (HANDLERS, 0, 0)


@dataclass(frozen=True, kw_only=True)
class BatchCheckpoint:
    """The checkpoint that a micro-batch is.

    Attributes:
        checkpoint: number of the micro-batch.
        group: number of the key group.
        reason: why it is taken.
        attempt: how often this batch has been begun, from 1.
        run: how often the job has been started, from 1.
        no_batch_committed: whether no batch had been committed when this run began.
        now_us: when the checkpoint was requested, us since the epoch; None if it was not requested. Handlers get this
            time, windows do not: a drain makes nothing due (docs/semantics.md section 7).
    """

    checkpoint: int
    group: int
    reason: CheckpointReason = CheckpointReason.BATCH
    attempt: int = 1
    run: int = 1
    no_batch_committed: bool = True
    now_us: int | None = None


class StateHandlerCalls:
    """Calls the handlers of one key group through one or more checkpoints. A new instance for each batch."""

    def __init__(
        self, handlers: Sequence[StateHandler], store: KeyGroupStore, checkpoint_info: BatchCheckpoint
    ) -> None:
        self._handlers = handlers
        self._store = store
        self._checkpoint_info = checkpoint_info
        self._windows: Sequence[WindowControl] = ()
        self._last: int | None = None
        self._previous: int | None = None
        self._restarted = False

    def begin(self, windows: Sequence[WindowControl], *, retire: bool = True) -> None:
        """Reset the handlers to their stored state, before any event of the batch.

        Args:
            windows: what the handlers may act on, one for each port.
            retire: whether to retire the checkpoint before the last one at once.

        Raises:
            CorruptState: the checkpoint has another number of handlers.
            StateVersionError: a handler cannot read the version that is stored.
        """
        self._windows = windows
        stored = self._store.find(*_SEGMENT)
        if stored is None:
            self._restarted = self._checkpoint_info.run > 1
            if self._restarted and self._checkpoint_info.no_batch_committed:
                self._call_all("reset_to_initial_state", 0)
            return
        record = LifecycleRecord.decode(stored)
        self._last, self._previous = record.checkpoint, record.previous
        self._restarted = record.run != self._checkpoint_info.run
        if len(record.handlers) != len(self._handlers):
            raise CorruptState(
                f"the checkpoint holds {len(record.handlers)} handlers, it has {len(self._handlers)} now; "
                "put the handlers back, or start with a new checkpoint folder"
            )
        for handler, state in zip(self._handlers, record.handlers, strict=True):
            require_readable(handler, state)
            self._call(handler, "reset", record.checkpoint, dict(state.values))
        if retire:
            self.retire()

    def retire(self) -> None:
        """Call `retire_checkpoint` for the checkpoint before the last one, which is no longer needed."""
        if self._previous is not None:
            previous, self._previous = self._previous, None
            self._call_all("retire_checkpoint", previous)

    def drain(self) -> None:
        """Begin the checkpoint: the handlers finish what is outstanding, and may still change the windows."""
        number = self._checkpoint_info.checkpoint
        self._call_all("drain", number)
        for handler in self._handlers:
            if handler.non_blocking:
                phase = "prepare_for_non_blocking_checkpoint"
                self._call(handler, phase, number)

    def checkpoint(self) -> None:
        """Complete the checkpoint: what the handlers write is stored with the batch."""
        number = self._checkpoint_info.checkpoint
        states = []
        for handler in self._handlers:
            written: dict[str, Any] = {}
            self._call(handler, "checkpoint", number, written)
            states.append(HandlerState(name=type(handler).__qualname__, version=handler.version, values=written))
        self._previous, self._last = self._last, number
        record = LifecycleRecord(number, self._previous, self._checkpoint_info.run, states)
        self._store.write(*_SEGMENT, record.encode())

    def close(self) -> None:
        """Close every handler, whatever one of them raises; the first error is raised at the end."""
        errors = []
        for handler in self._handlers:
            try:
                handler.close()
            except Exception as error:  # noqa: BLE001 -- raised below, once all are closed
                errors.append(error)
        if errors:
            raise errors[0]

    def _call_all(self, phase: str, checkpoint: int) -> None:
        for handler in self._handlers:
            self._call(handler, phase, checkpoint)

    def _call(self, handler: StateHandler, phase: str, checkpoint: int, values: dict[str, Any] | None = None) -> None:
        """Call the method of a handler that has the name of the phase."""
        try:
            returned = getattr(handler, phase)(self._context(phase, checkpoint, values))
        except PanekeeperError as error:
            note_user_frames(error, error)
            raise
        if returned is not None:
            instead = "store it by ctx.write(name, value)" if phase == "checkpoint" else "return nothing"
            raise LifecycleError(unwanted_result(f"{type(handler).__name__}.{phase}()", returned, instead))

    def _context(self, phase: str, checkpoint: int, values: dict[str, Any] | None = None) -> StateContext:
        return StateContext(
            phase=phase,
            checkpoint=checkpoint,
            group=self._checkpoint_info.group,
            reason=self._checkpoint_info.reason,
            attempt=self._checkpoint_info.attempt,
            restarted=self._restarted,
            values={} if values is None else values,
            windows=self._windows,
            now=self._now(),
        )

    def _now(self) -> datetime | None:
        requested = [] if self._checkpoint_info.now_us is None else [to_datetime(self._checkpoint_info.now_us)]
        seen = [window.now for window in self._windows if window.now is not None]
        return max(requested + seen, default=None)


class NoPartitionControl:
    """The `WindowControl` of panes and sessions, which have no partitions that could be evicted."""

    now: datetime | None = None

    def __init__(self, emit: Callable[[Any, dict[str, Any]], None] = lambda *_: None) -> None:
        """`emit` adds a result row of a partition, given by its key."""
        self.emit = emit

    def evict_partition(self, key: Any) -> None:
        """Raise `LifecycleError`."""
        raise LifecycleError(f"partition {key!r} cannot be evicted: panes and sessions have no partition eviction")

    def partitions(self) -> list[OpenPartition]:
        """Raise `LifecycleError`."""
        raise LifecycleError("panes and sessions have no partitions that could be listed; they close by age")
