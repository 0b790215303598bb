"""Writes the time of the wall clock to the control stream (`flow/control_stream.py`) when it is due."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.state.checkpoint.clock import format_time, monotonic_seconds, now_us
from panekeeper.state.checkpoint.control_files import ControlKind, write_control_file
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from panekeeper.state.checkpoint.folder import CheckpointFolder

_LOOK_SECONDS = 5.0
"""The clock is looked at at least so often."""
_OUTAGE_SECONDS = 60.0
"""A clock that jumped by more than this was set, or the process was suspended."""
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 30.0

_log = logger("job")


@dataclass(frozen=True, kw_only=True)
class TickFailure:
    """Why no tick reaches the control stream: what the last write raised, and since when."""

    since_us: int
    error: str

    def __str__(self) -> str:
        return f"since {format_time(self.since_us)}: {self.error}"


class TickScheduler:
    """Writes a tick to the control stream when the next wall-clock instant of the windows has come.

    It looks at the clock every few seconds, too. If the process or its machine was suspended, or the clock was set, it
    writes a "resume" instead: that is an outage like any other, so overdue work is done as after a start
    (docs/semantics.md sections 7.5 and 7.6). So it is if no tick could be written for that long. A write that fails, as
    on a full disk, is repeated. `on_outage` is called before a "resume" is written, with the time until which all was
    well, us.
    """

    def __init__(
        self,
        files: CheckpointFolder,
        *,
        on_outage: Callable[[int], None] = lambda _: None,
        now: Callable[[], int] = lambda: now_us(),  # noqa: PLW0108 -- a test sets the clock of this module
        monotonic: Callable[[], float] = monotonic_seconds,
    ) -> None:
        self._files = files
        self._now, self._monotonic = now, monotonic
        self._due: int | None = None
        self._on_outage = on_outage
        self._well_until: int | None = None  # an outage began then, us, and no "resume" was written yet
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._failure: TickFailure | None = None
        self._closed = self._was_notified = False
        self._changed = threading.Condition()
        self._looked_at, self._looked_seconds, self._chosen_seconds = now(), monotonic(), 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> TickScheduler:
        """Look at the clock in a thread from now on, until `close`."""
        self._thread = threading.Thread(target=self._run, name="panekeeper-ticks", daemon=True)
        self._thread.start()
        return self

    def schedule(self, due_us: int | None) -> None:
        """Write the next tick at this time (us since the epoch), None: no tick. Called when a batch is done."""
        with self._changed:
            self._due = due_us
            self._was_notified = True
            self._changed.notify()

    def close(self) -> None:
        """Write no more ticks."""
        with self._changed:
            self._closed = self._was_notified = True
            self._changed.notify()

    @property
    def failure(self) -> TickFailure | None:
        """Why no tick can be written at present; None if the last one was written."""
        return self._failure

    def look(self) -> float:
        """Write what is due by now, and return after how many seconds to look again."""
        with self._changed:
            now = self._now()
            self._look_for_outage(now)
            due = self._due
            if self._well_until is not None or (due is not None and due <= now):
                self._due = None  # the batch that processes the tick schedules the next one
            else:
                return self._until(due, now)
        return self._write(due)

    def _look_for_outage(self, now: int) -> None:
        """Note whether the process was suspended since the last look, or the clock was set."""
        seconds, before = self._monotonic(), self._looked_at
        passed, waited = (now - before) / 1e6, seconds - self._looked_seconds
        self._looked_at, self._looked_seconds = now, seconds
        if passed > self._chosen_seconds + _OUTAGE_SECONDS or passed < waited - _OUTAGE_SECONDS:
            self._well_until = before
            _log.warning(
                "the clock went from %s to %s between two looks at it: overdue work is done as after a start",
                format_time(before),
                format_time(now),
            )

    def _until(self, due: int | None, now: int) -> float:
        self._chosen_seconds = _LOOK_SECONDS if due is None else min(_LOOK_SECONDS, max(0.0, (due - now) / 1e6))
        return self._chosen_seconds

    def _write(self, due: int | None) -> float:
        try:
            if self._well_until is not None:
                self._on_outage(self._well_until)
            kind: ControlKind = "tick" if self._well_until is None else "resume"
            write_control_file(self._files, kind, us=self._now())
        except Exception as error:  # noqa: BLE001 -- a full disk, a store that is away: whatever it is, it may pass
            return self._note_failure(error, due)
        with self._changed:
            if self._failure is not None:
                seconds = max(0, self._now() - self._failure.since_us) // 1_000_000
                _log.warning("the control stream can be written again; no tick was for %s s", seconds)
            self._well_until, self._failure, self._retry_seconds = None, None, _FIRST_RETRY_SECONDS
            return self._until(self._due, self._now())

    def _note_failure(self, error: Exception, due: int | None) -> float:
        with self._changed:
            now = self._now()
            text = f"{type(error).__name__}: {first_line(error)}"
            self._failure = TickFailure(since_us=now if self._failure is None else self._failure.since_us, error=text)
            if self._due is None:
                self._due = due
            if self._well_until is None and due is not None and now - due > _OUTAGE_SECONDS * 1e6:
                self._well_until = due
            self._chosen_seconds = wait = self._retry_seconds
            self._retry_seconds = min(2 * wait, _LAST_RETRY_SECONDS)
        _log.warning(
            "no tick could be written to %s in %s: %s; next try in %g s", CONTROL_FOLDER, self._files.root, text, wait
        )
        return wait

    def _run(self) -> None:
        while not self._closed:
            wait = self.look()
            with self._changed:
                if not self._was_notified:
                    self._wait(wait)
                self._was_notified = False

    def _wait(self, seconds: float) -> None:
        """Wait these seconds, or until something changed."""
        self._changed.wait(seconds)
