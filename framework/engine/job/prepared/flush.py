"""What is on a local disk before a batch is recorded: all but what its record brings back.

Neither Spark nor the library that writes tables makes the operating system write through, so a power cut takes what is
younger than half a minute, or a part of it. The record of a batch has its rows, and what Spark logs as its commit. It
does not have its state, and when it is there the record of the batch before goes. So before that, it is flushed, with
the files of the tables that got the batch before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from panekeeper.framework.engine.delta_log.written_files import WrittenFiles
from panekeeper.state.checkpoint.folder import WRITTEN_BY_S, LocalFolder, local_path, modified_s, sync_files
from panekeeper.state.checkpoint.layout import STATE_FOLDER


@dataclass
class Flush:
    """Flushes what the batches of a run build on. An object store has what it has taken.

    Attributes:
        folder: the checkpoint.
    """

    folder: LocalFolder
    _state: set[str] = field(default_factory=set)
    _tables: dict[Path, WrittenFiles] = field(default_factory=dict)

    def before_record(self, tables: Iterable[str]) -> None:
        """Flush the state of a batch whose plan has run, and what the tables got before it.

        Args:
            tables: the paths of all tables that the job writes.
        """
        state = self._state_files()
        files = {self.folder.path / name for name in state - (self._state or self._written_by_now(state))}
        for local in filter(None, map(local_path, tables)):
            written = self._tables.setdefault(local, WrittenFiles(LocalFolder(local)))
            files |= {local / name for name in written.names()}
        sync_files(files)
        self._state = state

    def _state_files(self) -> set[str]:
        """Return the names of the files and folders of the state, also hidden ones."""
        place = len(os.path.join(self.folder.path, ""))  # noqa: PTH118 -- as a text, of which it is a part
        walked = os.walk(self.folder.path / STATE_FOLDER)
        return {f"{parent[place:]}/{name}" for parent, folders, files in walked for name in (*folders, *files)}

    def _written_by_now(self, names: Iterable[str]) -> set[str]:
        """Return the files and folders that are minutes older than the newest one."""
        times = {name: modified_s(self.folder.path / name) for name in names}
        newest = max(times.values(), default=0)
        return {name for name, time in times.items() if time < newest - WRITTEN_BY_S}
