"""The layout of an epoch's folder in a checkpoint (`epochs.py`): the name of every file and folder in it.

A name that is written to a checkpoint is stored state: changing one makes older checkpoints unreadable. Who writes
which file, and what is in it:

    begin.json               how the epoch began, and what of it is done; not in the first one (`epochs.py`)
    panekeeper/job.json      which job this is (`job_record.py`)
    panekeeper/tables.json   its Delta tables (`job_record.py`)
    panekeeper/flushed.json  a flush is in the tables: the job is finished for good (`job_record.py`)
    panekeeper/claims/       who has the lease: the newest number (`claims.py`)
    panekeeper/running.json  the job that runs, and its last heartbeat (`owner.py`)
    panekeeper/stopped.json  how the last job ended, what it left open, what its tables have (`owner.py`)
    panekeeper/savepoint.json  the newest savepoint of it (`last_savepoint.py`)
    panekeeper/runs.json     how often the job was started (`run_record.py`)
    panekeeper/inputs.json   what each source of Spark's logs reads (`run_record.py`)
    panekeeper/prepared/     what the last batch writes, recorded before anything has it (`state/prepared.py`)
    pulse/<number>.json      the control stream (`control_files.py`)

The other folders are Spark's.
"""

from __future__ import annotations

OWN_FOLDER = "panekeeper"
JOB_FILE = f"{OWN_FOLDER}/job.json"
TABLES_FILE = f"{OWN_FOLDER}/tables.json"
FLUSHED_FILE = f"{OWN_FOLDER}/flushed.json"
RUNNING_FILE = f"{OWN_FOLDER}/running.json"
CLAIMS_FOLDER = f"{OWN_FOLDER}/claims"
STOPPED_FILE = f"{OWN_FOLDER}/stopped.json"
SAVEPOINT_FILE = f"{OWN_FOLDER}/savepoint.json"
RUNS_FILE = f"{OWN_FOLDER}/runs.json"
PREPARED_FOLDER = f"{OWN_FOLDER}/prepared"
INPUTS_FILE = f"{OWN_FOLDER}/inputs.json"

CONTROL_FOLDER = "pulse"

OFFSETS_FOLDER = "offsets"
COMMITS_FOLDER = "commits"
SOURCES_FOLDER = "sources"
STATE_FOLDER = "state"
METADATA_FILE = "metadata"

SPARK_NAMES = (OFFSETS_FOLDER, COMMITS_FOLDER, SOURCES_FOLDER, STATE_FOLDER, METADATA_FILE)
"""What Spark keeps in a checkpoint."""

_DIGITS = 12


def control_file(number: int) -> str:
    """Return the name of a control file; they are numbered from 1.

    >>> control_file(7)
    'pulse/000000000007.json'
    """
    return f"{CONTROL_FOLDER}/{number:0{_DIGITS}d}.json"


def claim_file(number: int) -> str:
    """Return the name of the file that claims a lease; they are numbered from 1.

    >>> claim_file(7)
    'panekeeper/claims/000000000007.json'
    """
    return f"{CLAIMS_FOLDER}/{number:0{_DIGITS}d}.json"


def prepared_file(epoch: int, batch: int) -> str:
    """Return the name of the file that records what a batch writes.

    >>> prepared_file(0, 7)
    'panekeeper/prepared/0-7'
    """
    return f"{PREPARED_FOLDER}/{epoch}-{batch}"


def prepared_batch(name: str) -> tuple[int, int] | None:
    """Return the epoch and batch of the file with this name in its folder; None for anything else.

    >>> prepared_batch("0-7"), prepared_batch("0-7-large")
    ((0, 7), None)
    """
    epoch, _, batch = name.partition("-")
    return (int(epoch), int(batch)) if epoch.isdecimal() and batch.isdecimal() else None


def control_file_number(name: str) -> int | None:
    """Return the number of the control file (or claim) with this name in its folder, None for another file.

    >>> control_file_number("000000000007.json"), control_file_number("7.json.tmp")
    (7, None)
    """
    stem, dot, kind = name.partition(".")
    return int(stem) if (dot, kind) == (".", "json") and len(stem) == _DIGITS and stem.isdecimal() else None
