"""Which files of Panekeeper in a checkpoint are damaged?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from panekeeper.recovery.repair.finding import Action, Finding, unrepairable
from panekeeper.recovery.savepoint.restore_paths import RestorePaths
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.claims import read_unaccounted, unaccounted_files
from panekeeper.state.checkpoint.folder import CheckpointFolder, read_object
from panekeeper.state.checkpoint.job_record import read_record, read_tables
from panekeeper.state.checkpoint.layout import (
    FLUSHED_FILE,
    INPUTS_FILE,
    JOB_FILE,
    RESET_FILE,
    RUNNING_FILE,
    RUNS_FILE,
    STOPPED_FILE,
    SUPERSEDED_FILE,
    TABLES_FILE,
)
from panekeeper.state.checkpoint.owner import read_owner
from panekeeper.state.checkpoint.reset_intent import read_reset_intent
from panekeeper.state.checkpoint.restore_markers import superseded_by
from panekeeper.state.checkpoint.run_record import read_inputs, read_runs
from panekeeper.state.errors import CheckpointError, CorruptState

_Read = Callable[[CheckpointFolder], object]

_ONLY_REPORTS = (
    "it is for reports of the last run, and says which batches the tables have: if one of them was put back from a "
    "backup meanwhile, the next start does not find that out"
)

_SET_ASIDE: dict[str, tuple[_Read, str]] = {
    STOPPED_FILE: (lambda folder: read_object(folder, STOPPED_FILE), _ONLY_REPORTS),
    RUNS_FILE: (
        read_runs,
        "it counts starts only; state handlers see run and attempt begin at 1 again",
    ),
    TABLES_FILE: (read_tables, "each start of the job writes it; until then no savepoint can be made"),
    INPUTS_FILE: (
        read_inputs,
        "each start of the job writes it; until then nobody sees whether the job reads what it read before",
    ),
}
_UNACCOUNTED = (
    "it names a process that may only be paused; make sure that it is gone before you restore or reset the job"
)
_NOT_SAFE: dict[str, tuple[_Read, str]] = {
    JOB_FILE: (read_record, "which key groups and transaction ids the job has is nowhere else"),
    FLUSHED_FILE: (lambda folder: read_object(folder, FLUSHED_FILE), "the job is finished, and stays so"),
    RESET_FILE: (read_reset_intent, "a reset was begun, and with which epoch is nowhere else"),
    SUPERSEDED_FILE: (superseded_by, "the job was restored to another folder, so no job may start from this one"),
}
_LEASE = (
    "whether a job runs is not known, so nothing is repaired. A job that runs writes this file again within a minute; "
    "if none does, remove it and repair again"
)


def own_findings(folder: Files) -> Iterator[Finding]:
    """Yield what is damaged among the files of Panekeeper, but that of the lease."""
    lost = {file: (partial(read_unaccounted, file=file), _UNACCOUNTED) for file in unaccounted_files(folder)}
    for name, (read, why) in (_SET_ASIDE | lost).items():
        if _is_damaged(folder, read):
            action: Action = "set aside"
            yield Finding(file=name, action=action, why=why)
    for name, (read, why) in _NOT_SAFE.items():
        if _is_damaged(folder, read):
            yield unrepairable(folder.root, name, why)


def lease_findings(folder: Files) -> Iterator[Finding]:
    """Yield what is damaged in the file of the lease: then nothing may be changed."""
    try:
        read_owner(folder)
    except CheckpointError:
        yield Finding(file=RUNNING_FILE, action="none", why=_LEASE)


def intent_finding(paths: RestorePaths) -> Finding:
    """Return the finding of a damaged intent of a restore, which is beside the checkpoint."""
    return unrepairable(
        paths.checkpoint.root,
        f"../{paths.intent_file}",
        "a restore was interrupted, and which one is not known; remove this file and run the restore again",
    )


def _is_damaged(folder: Files, read: _Read) -> bool:
    try:
        read(folder)
    except CorruptState:
        return True
    return False
