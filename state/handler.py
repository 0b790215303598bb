"""The StateHandler contract: how an operator's own state takes part in every checkpoint (docs/semantics.md section 7).

Every micro-batch is a checkpoint. In each key group that has something to do an instance of the handler lives through

    reset (or nothing, at the very first) -> the batch's events -> drain -> checkpoint -> close

and is discarded. What it wrote in `checkpoint` is stored with the batch, completely or not at all, and is what the next
instance reads in `reset`. So a handler that does not write all of its state fails in the next batch, and not only after
a crash.

Windows act first (outstanding evictions are delivered, contents stored or restored), then the handlers in the order of
their registration; that order is the same for every method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from panekeeper.state.errors import LifecycleError, StateVersionError
from panekeeper.state.user_values import snapshot, to_json


class CheckpointReason(Enum):
    """Why a checkpoint is taken."""

    BATCH = "batch"
    DRAIN = "drain"
    SAVEPOINT = "savepoint"
    FINAL = "final"


@dataclass(frozen=True, kw_only=True)
class OpenPartition:
    """A live window partition, as `drain` can inspect it.

    Attributes:
        key: the value of the one partition column, or a tuple of several.
        tuples: the rows it holds, those of the next window batch included.
        last_insertion: when the last row came.
    """

    key: Any
    tuples: int
    last_insertion: datetime


class WindowControl(Protocol):
    """How a handler inspects the windows and evicts partitions; implemented by the core."""

    @property
    def now(self) -> datetime | None:
        """The last time of the wall clock."""
        ...

    def evict_partition(self, key: Any) -> None:
        """Evict a partition."""
        ...

    def emit(self, key: Any, columns: dict[str, Any]) -> None:
        """Add a result row of a partition."""
        ...

    def partitions(self) -> list[OpenPartition]:
        """Return the live partitions."""
        ...


class StateContext:
    """What a handler receives, and what it can do, in each of its methods.

    Attributes:
        checkpoint: number of the checkpoint (of the micro-batch): the one being taken; in `reset` the one that is
            restored, in `retire_checkpoint` the one that is no longer needed.
        group: number of the key group. Each has handlers and state of its own.
        reason: why the checkpoint is taken.
        attempt: how often this batch has been begun, from 1: above 1, side effects may already have happened.
        restarted: whether this is the group's first batch of a run: after a stop, a crash or a restore.
        now: the last time of the wall clock for this group's windows; for a drain, the time at which it was requested
            (but not where `arrival_time` is the clock). None before the first.
    """

    def __init__(  # noqa: PLR0913 -- only the lifecycle makes contexts
        self,
        *,
        phase: str,
        checkpoint: int,
        group: int,
        reason: CheckpointReason,
        attempt: int,
        restarted: bool,
        values: dict[str, Any],
        windows: Sequence[WindowControl],
        now: datetime | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.group = group
        self.reason = reason
        self.attempt = attempt
        self.restarted = restarted
        self.now = now
        self._phase = phase
        self._values = values
        self._windows = windows

    def __repr__(self) -> str:
        return f"StateContext({self._phase!r}, checkpoint={self.checkpoint}, group={self.group})"

    def write(self, name: str, value: Any) -> None:
        """Store a value under a name, with this checkpoint. Only in `checkpoint`; what is not written is discarded.

        A value is None, a bool, int, float, str, bytes, date, datetime, timedelta or Decimal, a list, tuple or dict of
        such, or a `pyarrow.Table`; of exactly these types, or the floats and times of numpy and pandas. Raises
        `LifecycleError` for another one (as NaT), for a name that is no text, and outside `checkpoint`.
        """
        self._require_phase("write", "checkpoint")
        if type(name) is not str:
            raise LifecycleError(f"a state has the name {name!r}, of type {type(name).__name__}; a name must be a str")
        if not isinstance(value, pa.Table):
            try:
                to_json(value)
            except TypeError as error:
                raise LifecycleError(
                    f"the state {name!r} cannot be kept: {error}; write numbers, text, bytes, times, lists and dicts "
                    "of them, or a pyarrow.Table"
                ) from None
        self._values[name] = value if isinstance(value, pa.Table) else snapshot(value)

    def read(self, name: str, default: Any = None) -> Any:
        """Return what was written under a name, or the default. Only in `reset`."""
        self._require_phase("read", "reset")
        return self._values.get(name, default)

    @property
    def ports(self) -> int:
        """How many input ports the operator has, each with a window; they are numbered from 0."""
        return len(self._windows)

    def evict_partition(self, key: Any, *, port: int = 0) -> None:
        """Evict a window partition: PARTITION_EVICTION with all it holds; the key then starts as a new one.

        Only in `drain`, and only of a partitioned window in arrival order: else `LifecycleError`. Nothing
        happens for a key that has no partition. Other ports keep theirs (docs/semantics.md section 7).
        """
        self._require_phase("evict_partition", "drain")
        self._window(port).evict_partition(key)

    def emit(self, key: Any, /, *, port: int = 0, **columns: Any) -> None:
        """Emit a result row of a partition, with the reason DRAIN. Only in `drain`.

        Of a window in arrival order at its last time, of a time interval without a pane. Section 7.3 of the semantics.

        Args:
            key: of a partition of this key group, as events have it; None without partitions.
            port: whose partition it is.
            **columns: of the declared output.

        Raises:
            LifecycleError: called elsewhere, or the key or a value does not fit.
            PanekeeperError: a column that the output does not declare.
        """
        self._require_phase("emit", "drain")
        self._window(port).emit(key, columns)

    def partitions(self, *, port: int = 0) -> list[OpenPartition]:
        """Return the live partitions of a port, in this key group. Only in `drain`, of windows in arrival order."""
        self._require_phase("partitions", "drain")
        return self._window(port).partitions()

    def _window(self, port: int) -> WindowControl:
        if not 0 <= port < self.ports:
            raise LifecycleError(f"there is no port {port}: this operator has {self.ports}, numbered from 0")
        return self._windows[port]

    def _require_phase(self, what: str, phase: str) -> None:
        if self._phase != phase:
            raise LifecycleError(f"{what}() is for {phase}(); it was called in {self._phase}()")


class StateHandler:
    """State of an operator's own, and its part in drain, checkpoint and reset. Every method is optional.

    An operator may be one itself, or be given others by `.operator(..., handlers=[...])`. An exception in any method
    fails the batch, which is run again: nothing of it is stored.
    """

    version: ClassVar[int] = 1
    """Version of what `checkpoint` writes; raise it when its meaning changes."""
    reads: ClassVar[frozenset[int]] = frozenset()
    """Older versions that `reset` can read, too; any other is refused before any event."""
    non_blocking: ClassVar[bool] = False
    """Whether `prepare_for_non_blocking_checkpoint` is called."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def drain(self, ctx: StateContext) -> None:
        """Complete outstanding work before the checkpoint. Here, and only here, a handler can evict and emit."""

    def prepare_for_non_blocking_checkpoint(self, ctx: StateContext) -> None:
        """Copy what `checkpoint` will write; called between `drain` and `checkpoint` if `non_blocking`."""

    def checkpoint(self, ctx: StateContext) -> None:
        """Write the state by `ctx.write`. Nothing can be emitted here."""

    def retire_checkpoint(self, ctx: StateContext) -> None:
        """Called when an earlier checkpoint is no longer needed; not guaranteed for each of them."""

    def reset(self, ctx: StateContext) -> None:
        """Restore the state by `ctx.read`, before any event of the batch. `ctx.restarted` is true in a new run."""

    def reset_to_initial_state(self, ctx: StateContext) -> None:
        """Start with initial state: the job ran before, but no checkpoint of it was completed, or it was reset."""

    def close(self) -> None:
        """Release resources: this instance is not used again."""


@dataclass(frozen=True, kw_only=True)
class HandlerState:
    """What one handler, by the name of its class, wrote with a checkpoint, and its `version` then."""

    name: str
    version: int
    values: Mapping[str, Any] = field(default_factory=dict)


def require_readable(handler: StateHandler, stored: HandlerState) -> None:
    """Raise `StateVersionError` unless the handler can read what is stored of it."""
    if stored.version == handler.version or stored.version in handler.reads:
        return
    raise StateVersionError(
        f"the stored state of {stored.name} has version {stored.version}, this {type(handler).__qualname__} reads "
        f"version {handler.version}; add {stored.version} to its `reads` and convert it in reset(), or run the "
        "version that wrote it"
    )
