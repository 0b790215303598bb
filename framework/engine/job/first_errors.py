"""What could not be computed, told once of each kind: to the log with its stack, and as a warning in one line.

The log goes nowhere where the program sets no handler. A warning of Python's is printed, as what is said of a
declaration that is seldom meant so (`sources/cautions.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress

from panekeeper.framework.core.quarantine import ErrorKind
from panekeeper.state.log import logger

_log = logger("job")


class FirstErrors:
    """The kinds of errors in the rows and functions of a job that are known since its start."""

    def __init__(self, job: str, quarantine: str | None) -> None:
        """`quarantine` is the path or name of that table, None if there is none."""
        self._job = job
        self._quarantine = "the quarantine" if quarantine is None else f"the quarantine {quarantine}"
        self._known: set[tuple[str, str]] = set()

    def tell(self, batch: int, errors: Iterable[ErrorKind]) -> None:
        """Tell of those of a batch, whose tables are written, that are of a new kind."""
        for error in errors:
            if (error.reason, error.kind) in self._known:
                continue
            self._known.add((error.reason, error.kind))
            _log.error("the first %s, in batch %s of job %s: %s", error.reason, batch, self._job, error.first)
            self._warn(batch, error)

    def _warn(self, batch: int, error: ErrorKind) -> None:
        what, are = ("row or firing", "is") if error.count == 1 else ("rows or firings", "are")
        text = (
            f"{error.count:,} {what} of batch {batch} could not be computed and {are} in {self._quarantine} "
            f"({error.reason}): {error.first.partition(chr(10))[0]}. The job goes on, and counts further ones in its "
            "status"
        )
        with suppress(Warning):  # where warnings are made errors: the batch is written, and must not fail for it
            # No line of a program is to blame here: job and batch stand in the place of file and line.
            warnings.warn_explicit(text, UserWarning, f"<job {self._job}>", batch, module="panekeeper")
