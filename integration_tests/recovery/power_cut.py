"""A power cut leaves one file of a checkpoint empty, its first line or half: what the next start makes of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from integration_tests.engine.readings import FILES, LOG
from panekeeper import PanekeeperError
from panekeeper.state.spark_logs.checksums import checksum_of

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

KEPT = ("checkpoint", "log", "view", "log_quarantine", "log_metrics", "log_downtime")
Content = bytes | None
"""What is left of a file; None: it is gone."""


class PowerCut:
    """A job that has ended, and can be taken back to that as often as wanted."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        for rows in FILES[:3]:
            readings.put(*rows)
        self.run()
        self.copies = readings.folder / "copies"
        for name in KEPT:
            shutil.copytree(readings.folder / name, self.copies / name)
        readings.put(*FILES[3])

    def run(self) -> None:
        """Start the job as a new process would, and let it process what is there."""
        self.readings.run(key_groups=1)

    def problems(self, is_wanted: Callable[[str, Content], bool]) -> dict[str, str]:
        """Cut files short, one at a time, and start: return what is wrong with what follows.

        Args:
            is_wanted: returns whether to do so to a file, of which that is left.
        """
        found = {}
        for file, left in (cut for cut in self.cuts() if is_wanted(*cut)):
            self.take_back()
            problem = self.problem_after(file, left)
            if problem is not None:
                found[f"{file}, {'gone' if left is None else f'{len(left)} bytes'}"] = problem
        return found

    def cuts(self) -> Iterator[tuple[str, Content]]:
        """Yield the files of the checkpoint, as its job has left it, with what is left of each.

        Nothing; and of what a start reads itself also half, and the first line. Of the state, and of what a folder has
        for each batch, the oldest file and the newest stand for all. Hidden files are Hadoop's checksums.
        """
        folder = self.copies / "checkpoint"
        for parent in sorted({path.parent for path in folder.rglob("[!.]*") if path.is_file()}):
            files = sorted((path for path in parent.glob("[!.]*") if path.is_file()), key=_age)
            is_numbered = parent.name != "panekeeper" and parent != folder
            for path in dict.fromkeys([files[0], files[-1]]) if is_numbered else files:
                name, content = path.relative_to(folder).as_posix(), path.read_bytes()
                yield name, b""
                if not name.startswith(("state/", "pulse/")) or "/_stateSchema/" in name:
                    yield name, content[: len(content) // 2]
                    if b"\n" in content and not name.startswith("state/"):
                        yield name, content[: content.index(b"\n") + 1]

    def take_back(self) -> None:
        """Take checkpoint and tables back, and let Spark have nothing of them in memory."""
        for name in KEPT:
            shutil.rmtree(self.readings.folder / name)
            shutil.copytree(self.copies / name, self.readings.folder / name)
        self.clear_memory()

    def clear_memory(self) -> None:
        """Let Spark have nothing in memory, as a new process has not."""
        jvm: Any = self.readings.spark._jvm
        jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        self.readings.spark.streams.resetTerminated()

    def problem_after(self, file: str, left: Content) -> str | None:
        """Cut a file short and start: return what is wrong with the error or with the tables, None if nothing is.

        Hadoop's checksum of what is no state is empty, too: it would show the cut.
        """
        leave(self.readings.checkpoint / file, left)
        checksum = self.readings.checkpoint / checksum_of(file)
        if checksum.exists() and not file.startswith("state/"):
            leave(checksum, b"")
        try:
            self.run()
        except PanekeeperError as error:
            return self._problem_of(error, file)
        whole = (self.readings.log(), self.readings.log("view")) == (LOG, LOG[1:])
        return None if whole else f"wrong tables: {self.readings.log()}"

    def _problem_of(self, error: PanekeeperError, file: str) -> str | None:
        text = str(error)
        is_named = Path(file).name in text or file.startswith("state/")  # a savepoint is the only way, whichever it is
        if "\n" in text or not is_named:
            return f"the error does not name it in one line: {text}"
        if "panekeeper repair" not in text and "restore" not in text:
            return f"the error names no way out: {text}"
        written = self.readings.log()
        return None if [row for row in LOG if row in written] == written else f"wrong tables: {written}"


def what_is(left: Content) -> str:
    """Return what is left of a file: `half`, `first line` or `nothing`."""
    return "nothing" if not left else "first line" if left.endswith(b"\n") else "half"


def leave(path: Path, left: Content) -> None:
    """Leave that of a file, or not even its name."""
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)


def _age(path: Path) -> tuple[int, str]:
    """Return what sorts files by the number of their batch, and by name if they have none."""
    number = path.name.split(".")[0]
    return (int(number) if number.isdigit() else -1, path.name)
