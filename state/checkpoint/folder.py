# ruff: noqa: D102 -- what the methods of a folder mean is said once, in `CheckpointFolder`
"""The small files of a checkpoint, wherever it is: what they are called, and the one interface to read and write them.

A name that is written to a checkpoint is stored state: changing one makes older checkpoints unreadable. Of an epoch's
folder (`epochs.py`), who writes which file, and what is in it:

    begin.json               how the epoch began, and what of it is done; not in the first one (`epochs.py`)
    panekeeper/job.json      which job this is (`job_record.py`)
    panekeeper/tables.json   its Delta tables (`job_record.py`)
    panekeeper/flushed.json  a flush is in the tables: the job is finished for good (`job_record.py`)
    panekeeper/claims/       who has the lease: the newest number (`claims.py`)
    panekeeper/running.json  the job that runs, and its last heartbeat (`lease_owner.py`)
    panekeeper/stopped.json  how the last job ended, what it left open, what its tables have (`runs.py`)
    panekeeper/savepoint.json  the newest savepoint of it (`job_record.py`)
    panekeeper/runs.json     how often the job was started (`runs.py`)
    panekeeper/inputs.json   what each source of Spark's logs reads (`job_record.py`)
    panekeeper/ports.json    how late the rows of each port may be, for who looks at the state (`job_record.py`)
    panekeeper/prepared/     what the last batch writes, recorded before anything has it (`state/prepared.py`)
    pulse/<number>.json      the control stream (`control_files.py`)

The other folders are Spark's. `CheckpointFiles` keeps the files wherever Spark can, through its Java virtual machine.
`LocalFolder` does the same locally in plain Python, so a command that reads a checkpoint starts no Java, and its create
is atomic: of two processes that create the same file, one gets `FileExistsError`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, Self

from panekeeper.state.errors import CorruptState

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
PORTS_FILE = f"{OWN_FOLDER}/ports.json"

CONTROL_FOLDER = "pulse"

OFFSETS_FOLDER = "offsets"
COMMITS_FOLDER = "commits"
SOURCES_FOLDER = "sources"
STATE_FOLDER = "state"
METADATA_FILE = "metadata"

_LOCK_ATTEMPTS, _LOCK_PAUSE_S = 50, 0.1
"""Who replaces a small file holds its lock for the time of one write."""

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


def control_file_number(name: str) -> int | None:
    """Return the number of the control file (or claim) with this name in its folder, None for another file.

    >>> control_file_number("000000000007.json"), control_file_number("7.json.tmp")
    (7, None)
    """
    stem, dot, kind = name.partition(".")
    return int(stem) if (dot, kind) == (".", "json") and len(stem) == _DIGITS and stem.isdecimal() else None


def numbers_in(folder: CheckpointFolder, name: str) -> list[int]:
    """Return the numbers of the control files, or claims, in a folder of the checkpoint, in ascending order."""
    numbers = map(control_file_number, folder.names(name))
    return [number for number in numbers if number is not None]


_SCHEME_OF_DISK = re.compile("^file:/+")


class CheckpointFolder(Protocol):
    """Files under one folder, by relative name."""

    @property
    def root(self) -> str:
        """The folder, as a message names it: of an epoch, the checkpoint."""
        ...

    @property
    def place(self) -> str:
        """The folder itself, as Spark names it."""
        ...

    def exists(self, name: str = "") -> bool:
        """Say whether a file or folder is there."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, without hidden ones; empty if the folder is not there."""
        ...

    def part(self, name: str) -> Self:
        """Return a folder in this one that messages call by the name of this one."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a small file. Raises `FileNotFoundError` if there is none of that name."""
        ...

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        """Write a small file, whole or not at all. Raises `FileExistsError` if it is there, unless `replace`."""
        ...

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        """Replace a small file if its content is still the old one. Raises `FileExistsError` if it is another."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there."""
        ...

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file, None if it is not there. Raises `ValueError` if it is no JSON."""
        ...

    def write_json(self, name: str, value: Any, *, replace: bool = False) -> None:
        """Write a JSON file, as `write` does. Raises `FileExistsError` if it is there, unless `replace`."""
        ...


class JsonFiles:
    """The JSON files of any `CheckpointFolder`, by its `read` and `write`."""

    def read_json(self: CheckpointFolder, name: str) -> Any:
        """Return the content of a JSON file, None if it is not there. Raises `ValueError` if it is no JSON."""
        try:
            return parse_json(self.read(name))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_json(self: CheckpointFolder, name: str, value: Any, *, replace: bool = False) -> None:
        """Write a JSON file, as `write` does. Raises `FileExistsError` if it is there, unless `replace`."""
        self.write(name, json.dumps(value).encode(), replace=replace)


@dataclass(frozen=True)
class LocalFolder(JsonFiles):
    """A `CheckpointFolder` on a local disk, without Spark, which messages may call by another name."""

    path: Path
    shown: str | None = field(default=None, compare=False)

    @property
    def root(self) -> str:
        return self.shown or str(self.path)

    @property
    def place(self) -> str:
        return str(self.path)

    def part(self, name: str) -> Self:
        return replace(self, path=self.path / name, shown=self.root)

    def exists(self, name: str = "") -> bool:
        return (self.path / name).exists()

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, without hidden ones; empty if the folder is not there."""
        try:
            names = os.listdir(self.path / folder)  # noqa: PTH208 -- names are all that is wanted
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Hadoop keeps checksums in hidden files, and Spark writes to temporary names before it renames.
        return sorted(name for name in names if not name.startswith(".") and not name.endswith(".tmp"))

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        """Write a small file, whole or not at all, also after a power cut. Raises as the protocol says."""
        path = self.path / name
        make_folder(path.parent)
        written = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with written.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())  # first: after a power cut a name must not stand for an empty file
            _remove_checksum(path)
            if replace:
                written.replace(path)
            else:
                self._move_new(written, name)
            sync_folder(path.parent)
        finally:
            written.unlink(missing_ok=True)

    def _move_new(self, written: Path, name: str) -> None:
        try:
            move_new(written, self.path / name)
        except FileExistsError as error:
            raise FileExistsError(f"{name} in {self.root} is already there") from error

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        """Replace a small file if its content is still the old one: by a lock, so that no process writes between."""
        path = self.path / name
        lock = os.open(path.with_name(".lock"), os.O_RDWR | os.O_CREAT, 0o666)  # one for all files of the folder
        try:
            self._lock(lock, name)
            if self.read(name) != old:
                raise FileExistsError(f"{name} in {self.root} was replaced meanwhile")
            self.write(name, new, replace=True)
        finally:
            os.close(lock)

    def _lock(self, descriptor: int, name: str) -> None:
        """Lock a file. A process that is suspended while it holds the lock is not waited for (A2)."""
        for _ in range(_LOCK_ATTEMPTS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_PAUSE_S)
            except OSError:  # a file system without locks
                return
            else:
                return
        raise FileExistsError(f"{name} in {self.root} is being replaced by another process")

    def remove(self, name: str) -> None:
        path = self.path / name
        _remove_checksum(path)
        try:
            path.unlink(missing_ok=True)
        except (IsADirectoryError, PermissionError):  # as Linux calls it, and as others do
            if not path.is_dir():
                raise
            shutil.rmtree(path)


def parse_json(content: bytes) -> Any:
    """Return the value that a small file holds. Raises `ValueError` if it is no JSON."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def damaged(folder: CheckpointFolder, name: str, why: str) -> CorruptState:
    """Return the error for a small file that does not say what was written."""
    return CorruptState(f"{name} in {folder.place} is damaged: {why}; restore this checkpoint from a savepoint")


def read_object(folder: CheckpointFolder, name: str) -> dict[str, Any] | None:
    """Return a JSON object of the checkpoint, None if it is not there. Raises `CorruptState` for something else."""
    try:
        value = folder.read_json(name)
    except ValueError as error:
        raise damaged(folder, name, "it is not JSON") from error
    if value is not None and not isinstance(value, dict):
        raise damaged(folder, name, "it is no JSON object")
    return value


def batch_numbers(folder: CheckpointFolder, log: str) -> list[int]:
    """Return the batches in one of Spark's logs, "offsets" or "commits", in ascending order."""
    return sorted(int(name) for name in folder.names(log) if name.isdecimal())


def local_path(checkpoint: str) -> Path | None:
    """Return the folder on this machine that a path or URL names, None for any other file system.

    >>> local_path("file:///data/checkpoint")
    PosixPath('/data/checkpoint')
    >>> local_path("s3a://bucket/checkpoint") is None
    True
    """
    if ":/" not in checkpoint:
        return Path(checkpoint)
    scheme, _, rest = checkpoint.partition(":")
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def place_of(path: str) -> str:
    """Return one spelling of a folder: two names of the same one are equal, also where links lead to it.

    >>> place_of("file:///data/../data/log"), place_of("s3://bucket/log/")
    ('/data/log', 's3a://bucket/log')
    """
    local = local_path(path)
    return spark_url(path).rstrip("/") if local is None else str(local.resolve())


def plain_url(url: str) -> str:
    """Return a URL as Spark and Hadoop log it in one spelling.

    >>> plain_url("file:///in/1.json"), plain_url("file:/in/1.json"), plain_url("s3a://bucket/1.json")
    ('/in/1.json', '/in/1.json', 's3a://bucket/1.json')
    """
    return _SCHEME_OF_DISK.sub("/", url)


def spark_url(place: str) -> str:
    """Return a path or URL with the scheme that Spark needs for S3: `s3a` for `s3`."""
    return f"s3a{place.removeprefix('s3')}" if place.startswith("s3://") else place


def move_new(written: Path, path: Path) -> None:
    """Give a written file its name. Raises `FileExistsError` if the name is taken, which a rename would not."""
    try:
        os.link(written, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; one small write is as good as whole
        with path.open("xb") as stream:
            stream.write(written.read_bytes())
            stream.flush()
            os.fsync(stream.fileno())


def make_folder(folder: Path) -> None:
    """Make a folder and those that it is in, and flush their names; nothing happens if it is there."""
    made = [path for path in (folder, *folder.parents) if not path.exists()] if not folder.is_dir() else []
    folder.mkdir(parents=True, exist_ok=True)
    for path in made:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, so that a file that was given its name keeps it after a power cut."""
    with suppress(OSError):  # some file systems cannot, and the file itself was flushed
        sync_file(folder)


def sync_file(path: Path) -> None:
    """Flush what is in a file, and not its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_checksum(path: Path) -> None:
    """Remove the checksum that Hadoop may have left beside a file: with it the new content would count as damaged."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
