"""What a checkpoint says of its job: which one it is, and what must not change while it lives.

Kept as one JSON file, `panekeeper/job.json`, in the checkpoint folder; written before the first batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from state.codec import STATE_VERSION
from state.errors import CorruptState, StateVersionError

JOB_FILE = "panekeeper/job.json"
FLUSHED_FILE = "panekeeper/flushed.json"
"""There once a flush is in the tables: the job is finished for good."""
TABLES_FILE = "panekeeper/tables.json"
"""Which Delta tables the job writes, role -> path (None: not wanted); written at each start."""
MOVED_FILE = "panekeeper/moved.json"
"""There once a savepoint of the job was restored to another folder: the tables went back with it, and fit that one."""
RESTORING_SUFFIX = ".restoring.json"
"""A file of this name beside the checkpoint folder says that a restore was begun and is not done: the tables may be
older than the checkpoint, so no job may start until the restore was run again."""


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The durable identity of a job.

    Attributes:
        name: the job's name.
        id: tells this checkpoint from any other; a table that another checkpoint wrote knows other transaction ids.
        declaration: fingerprint of the window and of what it computes.
        group_ids: representative id of each key group; keys are spread over them by a hash, so they never change.
        epoch: number of restores so far; part of the transaction ids, because a restored table remembers the ids
            of the commits it no longer holds.
        versions: packages that wrote the checkpoint first.
        state_version: version of the stored bytes.
    """

    name: str
    id: str
    declaration: Mapping[str, Any]
    group_ids: tuple[int, ...]
    epoch: int = 0
    versions: Mapping[str, str]
    state_version: int = STATE_VERSION

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON-able fields."""
        return asdict(self)

    def transaction(self, table: str) -> str:
        """Return the id under which this job commits to one of its tables; the version is the batch's number."""
        return f"{self.name}/{table}@{self.id}#{self.epoch}"

    @staticmethod
    def from_json(value: Any) -> JobRecord:
        """Return the record that `to_json` wrote. Raises `CorruptState` or `StateVersionError`."""
        names = {field.name for field in fields(JobRecord)}
        if not isinstance(value, dict) or set(value) != names:
            raise CorruptState(
                f"{JOB_FILE} in the checkpoint is damaged; restore this checkpoint from a savepoint, "
                "or start with a new checkpoint folder"
            )
        problem = version_problem(value["state_version"])
        if problem is not None:
            raise StateVersionError(problem)
        return JobRecord(**{**value, "group_ids": tuple(value["group_ids"])})


def version_problem(state_version: int) -> str | None:
    """Say what stands in the way of reading a checkpoint of this state version; None if nothing does."""
    if state_version == STATE_VERSION:
        return None
    return (
        f"the checkpoint has state version {state_version}, this Panekeeper reads version {STATE_VERSION}; "
        "run the version that wrote it, or flush the job there and start with a new folder"
    )
