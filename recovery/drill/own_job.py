"""A user's own job file, run as it is, except that its results and its checkpoint go to a scratch folder.

The file is run as `python FILE` would run it. What it gives to `to_delta` and `start` is replaced: tables and
checkpoint lie in the scratch folder, and the job ends once all is read. Its sources are read as ever; nothing else is
touched.
"""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.errors import DeclarationError
from framework.results import ToDelta

if TYPE_CHECKING:
    from framework import Job


class _Started(BaseException):
    """Ends the user's program where it has started its job. No `Exception`, so that it is not caught there."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job


def start_own(file: Path, folder: Path) -> Job:
    """Start the job of a file in a scratch folder.

    Raises:
        DeclarationError: the file starts none.
        PanekeeperError: as `start`.
    """
    original = ToDelta.start

    def start(declared: ToDelta, **_: Any) -> Job:
        tables = declared._tables  # noqa: SLF001 -- the drill is part of the product
        view = None if tables.view is None else str(folder / "view")
        scratch = replace(
            tables,
            log=str(folder / "log"),
            view=view,
            quarantine=str(folder / "log_quarantine"),
            metrics=str(folder / "log_metrics"),
            downtime=str(folder / "log_downtime"),
        )
        job = original(replace(declared, _tables=scratch), checkpoint=folder / "checkpoint", trigger="available_now")
        raise _Started(job)

    ToDelta.start = start  # type: ignore[method-assign, assignment]
    before = sys.argv, sys.path[:]
    sys.argv, sys.path[:0] = [str(file)], [str(file.parent)]
    try:
        runpy.run_path(str(file), run_name="__main__")
    except _Started as started:
        return started.job
    finally:
        ToDelta.start = original  # type: ignore[method-assign]
        sys.argv, sys.path[:] = before
    raise DeclarationError(f"{file} starts no job: a drill needs a program that calls .to_delta(...).start(...)")
