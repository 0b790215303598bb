"""Control files: time and commands for a job, one immutable JSON file each, in the folder of the control stream.

A file has the fields `kind` (`ControlKind`), `us` (the wall-clock time at which it was written, us since the epoch) and
`number` (that of its name). The job writes them, and so do commands from another process. The job reads them as a
stream (`framework/engine/flow/control_stream.py`), so a batch that is replayed sees the same time and commands.
"""

from __future__ import annotations

from typing import Literal

from panekeeper.state.checkpoint.clock import now_us
from panekeeper.state.checkpoint.folder import CheckpointFolder, read_object
from panekeeper.state.checkpoint.layout import CONTROL_FOLDER, control_file, control_file_number
from panekeeper.state.control_log import newest_control_file_read
from panekeeper.state.log import logger

ControlKind = Literal["resume", "tick", "drain", "savepoint", "flush"]
"""`resume`: the job was started. `tick`: an instant of the wall clock has come. The others are commands."""

CHECKPOINT_COMMANDS = ("drain", "savepoint")
"""Commands that make a batch a checkpoint of a kind, and leave the windows as they are."""

_log = logger("job")


def write_control_file(folder: CheckpointFolder, kind: ControlKind, *, us: int | None = None) -> int:
    """Write the next control file, at the time `us`, and return its number; from then on its time is data.

    Without `us` the clock is read once, here.

    Several processes may write at the same time: if the number is taken, the next one is tried. Spark reads each name
    once, so where files are lost the numbers go on after the last one that Spark has read. Ticks, which are many, go on
    after what the start has written.
    """
    number = newest_control_file(folder) + 1
    if (number == 1 or kind != "tick") and (read := newest_control_file_read(folder)) >= number:
        _log.warning("files of %s in %s are lost; its numbers go on after %s", CONTROL_FOLDER, folder.root, read)
        number = read + 1
    row = {"kind": kind, "us": now_us() if us is None else us}
    while True:
        try:
            folder.write_json(control_file(number), row | {"number": number})
        except FileExistsError:
            number += 1
        else:
            return number


def newest_control_file(folder: CheckpointFolder) -> int:
    """Return the number of the newest control file; 0 if there is none."""
    return max(_numbers(folder), default=0)


def remove_processed(folder: CheckpointFolder, number: int) -> list[int]:
    """Remove the control files before this number, which a committed batch has read. The newest keeps the numbering.

    Returns:
        The numbers of the control files that stay.
    """
    stay = []
    for one in _numbers(folder):
        if one < number:
            folder.remove(control_file(one))
        else:
            stay.append(one)
    return stay


class ControlCommand:
    """A command on its way to a job, which no other writer of control files can displace.

    A checkpoint that only Java's file systems reach may have no exclusive create: another process may then replace the
    file. `rewrite_if_lost` is called while the command is waited for.

    Attributes:
        number: of the control file that carries the command now.
    """

    def __init__(self, folder: CheckpointFolder, kind: ControlKind) -> None:
        self._folder = folder
        self._kind: ControlKind = kind
        self.number = write_control_file(folder, kind)

    def rewrite_if_lost(self) -> None:
        """Write the command again under another number if its file was replaced by another process."""
        row = read_object(self._folder, control_file(self.number))
        if row is not None and row.get("kind") != self._kind:
            self.number = write_control_file(self._folder, self._kind)


def _numbers(folder: CheckpointFolder) -> list[int]:
    found = map(control_file_number, folder.names(CONTROL_FOLDER))
    return [number for number in found if number is not None]
