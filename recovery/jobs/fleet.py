"""The jobs under some folders or S3 prefixes, found by their checkpoints. Reads only; starts no Spark."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from panekeeper.framework.declarations.display import Part, Result, TextTable, format_age, format_number, printable
from panekeeper.framework.declarations.errors import PanekeeperError
from panekeeper.framework.engine.sink.delta_log import LOG
from panekeeper.recovery.errors import ArchiveError, ArchiveNotFound
from panekeeper.recovery.jobs.status import JobStatus, Limits, damaged_status, status
from panekeeper.recovery.storage.files import Files, map_parallel
from panekeeper.recovery.storage.locations import Location, files_at
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.epochs import EPOCHS_FOLDER, POINTER_FILE, epoch_numbers

DEPTH = 5
"""How many folders deep jobs are looked for, by default."""

_SAVEPOINTS = {"blobs", "savepoints"}
_Found = tuple[Files, str | None]  # a checkpoint, and why its folder could not be listed


@dataclass(frozen=True, kw_only=True)
class Fleet(Result):
    """Some jobs: a table of them, and below it why a job is not healthy."""

    jobs: tuple[JobStatus, ...]

    def _described(self) -> Iterator[Part]:
        if not self.jobs:
            yield "no jobs"
            return
        rows = [_row_shown(job) for job in self.jobs]
        yield TextTable.of(rows[0], [row.values() for row in rows])
        yield from (printable(f"{job.checkpoint}: {job.why}") for job in self.jobs if job.health != "healthy")


def _row_shown(job: JobStatus) -> dict[str, str]:
    return {
        "job": job.job or "?",
        "state": job.state,
        "health": job.health,
        "batch": format_number(job.last_commit),
        "last batch": format_age(job.last_batch_age),
        "lag": format_age(job.watermark_lag),
        "behind": format_number(job.rows_behind),
        "rows/s": format_number(job.rows_per_second),
        "savepoint": format_age(None if job.last_savepoint is None else job.last_savepoint.age),
        "resumable": "yes" if job.resumable else "no",
        "checkpoint": job.checkpoint,
    }


def list_jobs(
    roots: Iterable[Location],
    *,
    depth: int = DEPTH,
    limits: Limits | None = None,
    s3: S3Options | None = None,
    now: Callable[[], int] = now_us,
) -> list[JobStatus]:
    """Return the status of each job whose checkpoint is under some folders, or is one of them, by checkpoint.

    Folders within a checkpoint, a Delta table or a location of savepoints are not looked into. A job that cannot be
    read has the state "damaged", and the reason in why. Raises `ArchiveError` for a root that is not there or cannot be
    used.
    """
    checkpoints: dict[str, _Found] = {}
    for root in roots:
        files = files_at(root, s3)
        if files is None:
            raise ArchiveError(
                f"jobs in {root} cannot be listed: it is neither on a local disk nor on S3; `panekeeper status "
                f"{shlex.quote(str(root))}` shows the job if it is the checkpoint of one"
            )
        if not files.exists():
            raise ArchiveNotFound(
                f"{files.root} is not there; give a folder, or s3://bucket/prefix, that holds checkpoints"
            )
        checkpoints |= {folder.root: (folder, problem) for folder, problem in _checkpoints(files, depth)}
    at = now()
    rows = map_parallel(
        lambda checkpoint: _row(*checkpoint, limits or Limits(), at),
        [checkpoints[name] for name in sorted(checkpoints)],
    )
    return [row for _, row in rows]


def _checkpoints(root: Files, depth: int) -> list[_Found]:
    """Return the checkpoints under a folder, level by level; what cannot be listed counts as one."""
    checkpoints: list[_Found] = []
    level = [root]
    for _ in range(depth + 1):
        below: list[Files] = []
        for folder, (inner, problem) in map_parallel(_list, level):
            if problem is not None:
                checkpoints.append((folder, problem))
            elif EPOCHS_FOLDER in inner and (folder.exists(POINTER_FILE) or epoch_numbers(folder)):  # be it damaged
                checkpoints.append((folder, None))
            elif LOG not in inner and not set(inner) >= _SAVEPOINTS:
                below += [folder.child(name) for name in inner]
        level = below
    return checkpoints


def _list(folder: Files) -> tuple[list[str], str | None]:
    try:
        return folder.folders(), None
    except (OSError, ArchiveError) as error:
        return [], f"it cannot be listed: {error}"


def _row(folder: Files, problem: str | None, limits: Limits, at: int) -> JobStatus:
    if problem is None:
        try:
            return status(folder, limits=limits, now=lambda: at)
        except (PanekeeperError, OSError) as error:
            problem = str(error)
            if not folder.exists(POINTER_FILE):
                problem = f"{POINTER_FILE} is missing: restore the job from a savepoint"
        except Exception as error:  # noqa: BLE001 -- one checkpoint, which may be anyone's, must not hide the others
            problem = f"it has content that Panekeeper never writes ({type(error).__name__}: {error})"
    return damaged_status(folder.root, problem)
