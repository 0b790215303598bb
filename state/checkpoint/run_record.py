"""How often a job was started, which of its batches was interrupted, and what its sources read.

That is `panekeeper/runs.json`, Spark's logs, and `panekeeper/inputs.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from panekeeper.state.checkpoint.folder import CheckpointFolder, batch_numbers, damaged, read_object
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, INPUTS_FILE, OFFSETS_FOLDER, RUNS_FILE
from panekeeper.state.errors import CorruptState


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


def pass_on_runs(before: CheckpointFolder, folder: CheckpointFolder) -> None:
    """Let an epoch that begins without state know how often the job was started; no batch of it was begun before."""
    with suppress(CorruptState):  # it needs nothing of that
        folder.write_json(RUNS_FILE, read_runs(before) | {"begun": None, "attempts": 0})


def read_runs(folder: CheckpointFolder) -> dict[str, Any]:
    """Return how often the job was started: runs; begun, the batch that was unfinished then; and attempts at it.

    Raises:
        CorruptState: the file is damaged.
    """
    stored = read_object(folder, RUNS_FILE) or {"runs": 0, "begun": None, "attempts": 0}
    if not all(isinstance(stored.get(name), int) for name in ("runs", "attempts")) or "begun" not in stored:
        raise damaged(folder, RUNS_FILE, "it lacks a number")
    return stored


def is_new(folder: CheckpointFolder) -> bool:
    """Return whether no batch was ever begun in this checkpoint."""
    return not folder.names(OFFSETS_FOLDER)


def last_batches(folder: CheckpointFolder) -> tuple[int | None, int | None]:
    """Return the last batch that was begun and the last one that was committed; None if there is none."""
    commits = batch_numbers(folder, COMMITS_FOLDER)  # first: a batch must not look committed before it began
    return max(batch_numbers(folder, OFFSETS_FOLDER), default=None), max(commits, default=None)


def require_all_batches_committed(folder: CheckpointFolder) -> None:
    """Raise `CorruptState` unless the last batch that was begun is committed."""
    begun, committed = last_batches(folder)
    if begun != committed:
        raise CorruptState(
            f"the job of {folder.root} has ended, but batch {begun} was begun and the last committed one is "
            f"{committed}; start the job again, which runs that batch once more"
        )


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a source reads.

    Attributes:
        kind: `files`, or Spark's name of the source.
        place: path, topics or table; empty if the source has no such thing.
        how: digest of its format and options, by which two sources of one place differ.
        by_name: files are known by their names alone, and not by their paths.
        topics: topic of Kafka -> the ids of its cluster and of itself, when the last batch read it.
    """

    kind: str
    place: str
    how: str = ""
    by_name: bool = False
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[str, str, str]:
        """What a source keeps when it comes to another place in the program."""
        return self.kind, self.place, self.how


_INPUT = ("kind", "place", "how", "by_name", "topics")
"""An older version recorded more."""


def read_inputs(folder: CheckpointFolder) -> list[Input] | None:
    """Return what each source has read until now, by its number; None if no run has recorded it.

    Raises:
        CorruptState: the file is damaged.
    """
    stored = read_object(folder, INPUTS_FILE)
    if stored is None:
        return None
    try:
        return [Input(**{name: one[name] for name in _INPUT if name in one}) for one in stored["sources"]]
    except (KeyError, TypeError) as error:
        raise damaged(folder, INPUTS_FILE, "it names no sources") from error


def write_inputs(folder: CheckpointFolder, inputs: Iterable[Input], *, replace: bool = True) -> None:
    """Record what each source of a run reads: before the very first batch, and once Spark has begun one.

    Raises:
        FileExistsError: there is a record, unless `replace`.
    """
    folder.write_json(INPUTS_FILE, {"sources": [asdict(one) for one in inputs]}, replace=replace)


def require_logs_agree(folder: CheckpointFolder) -> None:
    """Raise `CorruptState` unless the last batch that was begun is the last committed one, or the one after it."""
    begun, committed = (-1 if batch is None else batch for batch in last_batches(folder))
    if not 0 <= begun - committed <= 1:
        raise CorruptState(
            f"Spark's logs in {folder.root} do not agree: batch {begun} was begun, and the last committed one is "
            f"{committed}. Restore this checkpoint from a savepoint"
        )
