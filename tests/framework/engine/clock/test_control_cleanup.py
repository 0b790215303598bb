"""Ticks of days against a folder, with a log of them as Spark writes it: files and bytes stay those of day one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from panekeeper.framework.engine.clock.control_cleanup import ControlCleanup
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.state.checkpoint.control_files import control_files_read, newest_control_file_read, write_control_file
from panekeeper.state.checkpoint.folder import CONTROL_FOLDER, LocalFolder, control_file

TICKS = 200_000
TICKS_A_BATCH = 1000
COMPACT_EVERY = 10


class SparkLog:
    """Writes the log of a file source as Spark's `FileStreamSourceLog` does, and removes old files as it does."""

    def __init__(self, folder: LocalFolder) -> None:
        self._folder = folder
        self._log = folder.path / "sources/1"
        self._log.mkdir(parents=True)
        self._entry = -1
        self.greatest_bytes = 0

    def add(self, numbers: range) -> None:
        """Add an entry with these control files; every tenth is a compact one."""
        self._entry += 1
        prefix = f'{{"path":"{self._folder.path.as_uri()}/{CONTROL_FOLDER}/'
        rest = f'.json","timestamp":1700000000000,"batchId":{self._entry}}}'
        lines = [f"{prefix}{number:012d}{rest}" for number in numbers]
        name = str(self._entry)
        if (self._entry + 1) % COMPACT_EVERY == 0:
            name += ".compact"
            before = range(max(0, self._entry - COMPACT_EVERY), self._entry)
            lines = [line for entry in before for line in self._lines(entry)] + lines
            for old in range(self._entry - 3 * COMPACT_EVERY, self._entry - 2 * COMPACT_EVERY):
                self._file(old).unlink(missing_ok=True)
        content = "\n".join(["v1", *lines])
        self.greatest_bytes = max(self.greatest_bytes, len(content))
        (self._log / name).write_text(content)

    def _file(self, entry: int) -> Path:
        return self._log / (f"{entry}.compact" if (entry + 1) % COMPACT_EVERY == 0 else str(entry))

    def _lines(self, entry: int) -> list[str]:
        return self._file(entry).read_text().splitlines()[1:]


def test_many_ticks_cost_no_more_than_the_first_thousands(tmp_path: Path) -> None:
    """Of a tick a second that is two days, after which Spark's log alone would have 24 MB in each compact file."""
    folder = LocalFolder(tmp_path)
    spark, cleanup = SparkLog(folder), ControlCleanup(cast("CheckpointFiles", folder))
    (tmp_path / CONTROL_FOLDER).mkdir()
    last = 0
    for first in range(1, TICKS + 1, TICKS_A_BATCH):
        if last:
            cleanup.remove_processed(last, None)  # at the beginning of a batch, for the one before
        last = first + TICKS_A_BATCH - 1
        for number in (first, last):  # the files of the others would take a minute and show no more
            (tmp_path / control_file(number)).write_text(json.dumps({"kind": "tick", "us": number, "number": number}))
        spark.add(range(first, last + 1))

    read = control_files_read(folder)
    assert newest_control_file_read(folder) == TICKS
    assert all(number in read for number in range(TICKS - 999, TICKS + 1))
    assert spark.greatest_bytes < 3_000_000
    assert len(folder.names(CONTROL_FOLDER)) == 3
    assert len(folder.names("sources/1")) < 5 * COMPACT_EVERY
    assert write_control_file(folder, "tick") == TICKS + 1


def test_a_clean_up_that_fails_ends_nothing_and_is_repeated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A full disk would stop the job, though nothing has to be written."""

    class FullDisk(LocalFolder):
        is_full = True

        def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
            if self.is_full:
                raise OSError(28, "No space left on device")
            super().write(name, content, replace=replace)

    folder: Any = FullDisk(tmp_path)
    spark, cleanup = SparkLog(folder), ControlCleanup(folder)
    for entry in range(COMPACT_EVERY):
        spark.add(range(200 * entry + 1, 200 * entry + 201))
    cleanup.remove_processed(2000, None)
    assert "No space left on device; they are removed later" in caplog.text
    assert len(control_files_read(folder)) == 2000
    FullDisk.is_full = False
    cleanup.remove_processed(2000, None)
    assert len(control_files_read(folder)) == 1001
