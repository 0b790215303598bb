"""What the upkeep of tables has done, or would do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TableUpkeep:
    """The upkeep of one table.

    Attributes:
        role: what it is to the job: log, view, ...
        path: its path or URL.
        compacted: how many files were replaced by larger ones; in a dry run, how many small ones there are, or None if
            that is not known without Spark.
        added: how many files have replaced them; 0 in a dry run.
        removed: how many files that no version within the retention has were removed, or would be.
        bytes: size of the removed files.
        kept: how many more of such files are there, which a savepoint needs.
        retained_hours: for how long the files of earlier versions are kept, in hours; None without VACUUM.
        notes: what a user should know of it, in sentences.
        problem: why not all of it could be done; None if all was.
    """

    role: str
    path: str
    compacted: int | None = 0
    added: int = 0
    removed: int = 0
    bytes: int = 0
    kept: int = 0
    retained_hours: int | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Upkeep:
    """The upkeep of the tables of a checkpoint.

    Attributes:
        checkpoint: its full name.
        job: the name of its job.
        dry_run: whether nothing was changed.
        savepoints: how many savepoints were found that have a version of one of the tables.
        tables: what was done with each table.
    """

    checkpoint: str
    job: str
    dry_run: bool
    savepoints: int
    tables: tuple[TableUpkeep, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether everything was done for every table."""
        return all(one.problem is None for one in self.tables)
