"""The runs of a job on its checkpoint: how often it was started, how the last run ended, and what it has reported.

A run ends with `panekeeper/stopped.json`, or, after a crash, with what its lease has left. `panekeeper/runs.json`
counts the starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from panekeeper.state.checkpoint.folder import (
    COMMITS_FOLDER,
    OFFSETS_FOLDER,
    RUNNING_FILE,
    RUNS_FILE,
    STOPPED_FILE,
    CheckpointFolder,
    batch_numbers,
    read_object,
)
from panekeeper.state.checkpoint.lease_owner import LeaseOwner
from panekeeper.state.errors import CorruptState

# How the last runs ended


@dataclass(frozen=True, kw_only=True)
class PreviousRun:
    """The last job on the checkpoint before this one, for the downtime report. Times are us since the epoch.

    `seen_us` is when it ended; after a crash the time of its last heartbeat, a few seconds before at most. It is
    `clean` if it ended, rather than failed or crashed.
    """

    name: str
    since_us: int
    seen_us: int
    clean: bool

    @staticmethod
    def at(name: str, us: int) -> PreviousRun:
        """Return a run that is known to have been there at one instant only, and did not end by itself."""
        return PreviousRun(name=name, since_us=us, seen_us=us, clean=False)


def read_end(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the last job that ended wrote to `stopped.json`; empty if none did, or if the file is damaged.

    The fields: at (when, us), state ("ended", "failed" or "flushed"), name, since (us), token, has_run and before
    of its lease, and batch and open (the work it left open), if it had run one. They are for reports.
    """
    try:
        return folder.read_json(STOPPED_FILE) or {}
    except ValueError:
        return {}


def read_report(folder: CheckpointFolder) -> dict[str, Any]:
    """Return what the job on a checkpoint, or the last one that ran there, reported of itself; empty if nothing.

    It is written with each heartbeat and at the end. The fields: batch (the last one whose tables are written), open
    (the work it has open), and progress (`framework/engine/job/status.py`).
    """
    try:
        value = folder.read_json(RUNNING_FILE)
    except ValueError:
        return {}
    return value if value and "progress" in value else read_end(folder)  # a new run has none yet


def previous_run(folder: CheckpointFolder, crashed: LeaseOwner | None) -> PreviousRun | None:
    """Return the last run on a checkpoint that has committed a batch, None if there was none.

    A start that was aborted before its first batch is no run: it has left the run before it in its own fields.
    `crashed` owns the lease that a crashed job has left; None if the last job released its lease.
    """
    last, _ = _last(folder, crashed)
    if last.get("has_run", True):
        return last_run(folder, crashed)
    return None if last["before"] is None else PreviousRun(**last["before"])


def last_run(folder: CheckpointFolder, crashed: LeaseOwner | None) -> PreviousRun | None:
    """Return the last run on a checkpoint, whether it has committed a batch or not; None if there was none."""
    last, end = _last(folder, crashed)
    if not last:
        return None
    seen, clean = (end["at"], end["state"] != "failed") if end else (last["seen"], False)
    return PreviousRun(name=last["name"], since_us=last["since"], seen_us=seen, clean=clean)


def put_before(folder: CheckpointFolder, crashed: LeaseOwner | None, run: PreviousRun) -> LeaseOwner | None:
    """Store which run is the last that has committed a batch, as `previous_run` returns it from then on.

    Returns the owner of the crashed job's lease as it is to be put back.
    """
    before = None if run == last_run(folder, crashed) else run
    if end := _last(folder, crashed)[1]:
        stays = {"has_run": before is None, "before": None if before is None else asdict(before)}
        folder.write_json(STOPPED_FILE, {**end, **stays}, replace=True)
    return None if crashed is None else with_previous(crashed, before)


def last_token(folder: CheckpointFolder, crashed: LeaseOwner | None) -> str | None:
    """Return the token of the lease that was held last; None if there was none."""
    token: str | None = _last(folder, crashed)[0].get("token")
    return token


def _last(folder: CheckpointFolder, crashed: LeaseOwner | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the fields of the lease that was held last, and how it ended; the end is empty after a crash."""
    end = read_end(folder)
    # A job that crashed between writing `stopped.json` and removing `running.json` has left both.
    if crashed is not None and end.get("token") != crashed.token:
        return asdict(crashed), {}
    return end, end


def with_previous(owner: LeaseOwner, run: PreviousRun | None) -> LeaseOwner:
    """Return an owner of the lease if `run` is the last one that has committed a batch; None: its own run."""
    return replace(owner, has_run=run is None, before=None if run is None else asdict(run))


# How often the job was started


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The state of a checkpoint when a run of its job begins.

    Attributes:
        number: how often the job was started, this time included.
        no_batch_committed: whether no batch was committed yet.
        interrupted_batch: number of the batch that was begun and not committed, which runs again first; None if there
            is none.
        attempt: how often that batch will have been begun.
    """

    number: int = 1
    no_batch_committed: bool = True
    interrupted_batch: int | None = None
    attempt: int = 1


def begin_run(folder: CheckpointFolder) -> RunRecord:
    """Count one more run of the job and return its record. Called by the driver, before the query starts."""
    stored = read_runs(folder)
    offsets, commits = batch_numbers(folder, OFFSETS_FOLDER), batch_numbers(folder, COMMITS_FOLDER)
    begun = offsets[-1] if offsets and offsets[-1:] != commits[-1:] else None
    attempts = 0 if begun is None else 1 + (stored["attempts"] if stored["begun"] == begun else 0)
    runs = stored["runs"] + 1
    folder.write_json(RUNS_FILE, {"runs": runs, "begun": begun, "attempts": attempts}, replace=True)
    return RunRecord(number=runs, no_batch_committed=not commits, interrupted_batch=begun, attempt=attempts + 1)


def pass_on_runs(epoch: CheckpointFolder, next_epoch: CheckpointFolder) -> None:
    """Let an epoch that begins without state know how often the job was started; no batch of it was begun before."""
    with suppress(CorruptState):  # it needs nothing of that
        next_epoch.write_json(RUNS_FILE, read_runs(epoch) | {"begun": None, "attempts": 0})


def read_runs(folder: CheckpointFolder) -> dict[str, Any]:
    """Return `runs`, how often the job was started; `begun`, the batch that was unfinished then; `attempts` at it."""
    return read_object(folder, RUNS_FILE) or {"runs": 0, "begun": None, "attempts": 0}
