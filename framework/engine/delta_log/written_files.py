"""What has come to a table on a local disk since the last look, so that it can be flushed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from panekeeper.framework.engine.delta_log.checkpoints import files_of_checkpoint
from panekeeper.framework.engine.delta_log.commits import LOG, POINTER, newest_files
from panekeeper.framework.engine.delta_log.lost_files import added_files, newest_commits
from panekeeper.state.checkpoint.folder import LocalFolder, sync_files
from panekeeper.state.spark_logs.checksums import checksum_of


@dataclass
class WrittenFiles:
    """Looks at the log of a table, commit by commit.

    Attributes:
        table: its folder.
    """

    table: LocalFolder
    _last: str = ""
    _pointed: bytes = b""

    def names(self) -> set[str]:
        """Return what commits since the last look consist of, and have added, with its folders, and a new checkpoint.

        At the first look: since some minutes before the newest commit. Not all of these files need be there: most have
        no checksum of Hadoop, and what a commit has added may be removed by now.
        """
        # One that is gone was removed by whoever cleans up the log, and so may be those that came after it.
        is_there = bool(self._last) and self.table.exists(f"{LOG}/{self._last}.json")
        commits = self._since() if is_there else newest_commits(self.table)
        if commits:
            self._last = commits[-1]
        found = {f"{LOG}/{one}{kind}" for one in commits for kind in (".json", ".crc")}
        found |= {name for _, name, _ in added_files(self.table, commits, ("add", "cdc"))} | self._checkpoint()
        folders = {str(folder) for name in found for folder in PurePosixPath(name).parents} - {"."}
        return found | folders | {*map(checksum_of, found)}

    def flush(self) -> None:
        """Flush what has come since the last look."""
        sync_files({self.table.path / name for name in self.names()})

    def _since(self) -> list[str]:
        found: list[str] = []
        number = int(self._last) + 1
        while self.table.exists(f"{LOG}/{number:020d}.json"):
            found.append(f"{number:020d}")
            number += 1
        return found

    def _checkpoint(self) -> set[str]:
        """Return the files of the newest checkpoint of the log if it has come since the last look."""
        try:
            pointed = self.table.read(POINTER)
        except FileNotFoundError:
            return set()
        if pointed == self._pointed:
            return set()
        self._pointed = pointed
        return {POINTER, *files_of_checkpoint(self.table, newest_files(self.table)[0])}
