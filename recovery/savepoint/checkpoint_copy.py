"""Writes a savepoint as a checkpoint for any folder, each file checked on the way."""

from __future__ import annotations

import codecs
import io
import os
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import quote

from panekeeper.recovery.errors import DamagedSavepoint
from panekeeper.recovery.savepoint.checkpoint_reader import files_ahead
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.savepoint.manifest_rules import MAX_SMALL_BYTES
from panekeeper.recovery.storage.archive import Archive, ByteSink
from panekeeper.recovery.storage.blobs import ProgressCallback, SavedFile, TransferProgress, download
from panekeeper.recovery.storage.files import Files
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.recovery.storage.parallel import map_parallel
from panekeeper.state.checkpoint.folder import local_path
from panekeeper.state.checkpoint.layout import COMMITS_FOLDER, JOB_FILE, STATE_FOLDER
from panekeeper.state.snapshots import require_plain_ids, require_plain_names_in_snapshot, require_schemas_within

_IN_MEMORY = 2**20
"""How many bytes of a file that is checked are held in memory."""
_NOT_QUOTED = "/:@!$&'()*+,;=~"
"""Beside letters, digits and `_.-`, the characters of ASCII that Java does not quote in a path."""


def write_checkpoint(
    archive: Archive, manifest: Manifest, *, into: Files, checkpoint_path: str, progress: ProgressCallback | None = None
) -> None:
    """Write the files of a savepoint into a new folder; first the one that says which job it is of.

    Args:
        archive: where the savepoint is.
        manifest: the savepoint.
        into: the new folder.
        checkpoint_path: full name of the folder that the job will run on; it is written into the files in which Spark
            stores that name.
        progress: called after each file.

    Raises:
        DamagedSavepoint: a file is missing or altered, or has content that Panekeeper never writes; what was written so
            far stays there.
        CorruptState: Spark's logs in it are truncated or altered.
        SavepointRefused: a link leads out of the folder.
    """
    old, done = manifest.checkpoint, 0
    first = [file for file in manifest.files if file.path == JOB_FILE]
    for files in (first, [file for file in manifest.files if file not in first]):
        for file, _ in map_parallel(lambda file: _write(archive, file, into, old, checkpoint_path), files):
            done += file.size
            if progress is not None:
                progress(TransferProgress(sent=done, reused=0, total=manifest.size))
    for path in files_ahead(into, manifest.batch):
        raise _never_written(path, "no batch of it has read this file, and a start would")


@contextmanager
def temporary_copy(archive: Archive, manifest: Manifest) -> Iterator[str]:
    """Provide the full name of a folder on this host with a savepoint's checkpoint, while the block lasts.

    Args:
        archive: where the savepoint's files are.
        manifest: the savepoint.

    Raises:
        DamagedSavepoint: a file is missing or altered.
    """
    with tempfile.TemporaryDirectory(prefix="panekeeper-copy-") as scratch:
        folder = str(Path(scratch).resolve() / "checkpoint")
        write_checkpoint(archive, manifest, into=LocalFiles(Path(folder)), checkpoint_path=folder)
        yield folder


def rewrite_paths(folder: Files, *, old: str, new: str) -> None:
    """Replace the full name of a checkpoint in the files in which Spark stores it.

    Args:
        folder: the files.
        old: the name they have.
        new: the name they get.
    """
    for name in folder.sizes():
        if contains_absolute_path(name) and not name.rpartition("/")[2].startswith("."):
            with tempfile.NamedTemporaryFile(prefix="panekeeper-") as content:
                with _renamed(name, content, old=old, new=new) as renamed:
                    folder.get(name, renamed)
                content.flush()
                folder.remove(name)  # with Hadoop's checksum of the old content
                folder.put_file(name, Path(content.name))


def contains_absolute_path(path: str) -> bool:
    """Return whether Spark writes the full name of the checkpoint into this file of it."""
    return path.startswith("sources/") or _is_description(path)


def _is_description(path: str) -> bool:
    """Return whether a file describes the state of an operator; `_metadata` of a store within has its schema."""
    parts = PurePosixPath(path).parts
    return parts[0] == STATE_FOLDER and parts[2:3] == ("_metadata",)


def with_new_path(path: str, content: bytes, *, old: str, new: str) -> bytes:
    """Return the content of a file of a checkpoint for another folder.

    Spark writes full names into the logs of file sources, of which the control stream is one, and into the metadata of
    its state. With the old name there, the job would process control files again, or read the old folder.

    Args:
        path: the file's name in the checkpoint.
        content: what the file contains.
        old: full name of the folder it was written in: a local path or a URL.
        new: full name of the folder it is for.
    """
    into = io.BytesIO()
    with _renamed(path, into, old=old, new=new) as renamed:
        renamed.write(content)
    return into.getvalue()


class _NewNames:
    """Writes text on to another sink, with some names in it replaced. Of the text it holds one piece and a name.

    A blob may be as large as its manifest says, whoever wrote both, and need not have lines.

    Args:
        into: where the text goes.
        names: name -> what takes its place. Of two that match at one place, the first.
        path: what is written, for the error.
    """

    def __init__(self, into: ByteSink, names: Mapping[str, str], path: str) -> None:
        self._into, self._names, self._path = into, names, path
        self._pattern = re.compile("|".join(map(re.escape, names)))
        self._longest = max(map(len, names))
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._held = ""

    def write(self, data: bytes, /) -> int:
        """Write the next piece and return its length. Raises `DamagedSavepoint` if it is no text."""
        self._decode(data)
        self._write_up_to(len(self._held) - self._longest + 1)  # from there on a name may be cut
        return len(data)

    def end(self) -> None:
        """Write what is held."""
        self._decode(b"", final=True)
        self._write_up_to(len(self._held))

    def _decode(self, data: bytes, *, final: bool = False) -> None:
        try:
            self._held += self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            raise DamagedSavepoint(
                f"{self._path} in the savepoint is not a text file; use another savepoint"
            ) from error

    def _write_up_to(self, end: int) -> None:
        done = 0
        for match in self._pattern.finditer(self._held):
            if match.start() >= end:
                break
            self._into.write(f"{self._held[done : match.start()]}{self._names[match[0]]}".encode())
            done = match.end()
        end = max(done, end)
        self._into.write(self._held[done:end].encode())
        self._held = self._held[end:]


@contextmanager
def _renamed(path: str, into: ByteSink, *, old: str, new: str) -> Iterator[ByteSink]:
    """Provide a sink for a file of a checkpoint, which writes it on as it is in another folder."""
    if old == new or not contains_absolute_path(path):
        yield into
        return
    # In the log of a source names are quoted as in a URL, in the metadata they are plain; the last spelling counts.
    quoting = (str, _quoted) if path.startswith("sources/") else (_quoted, str)
    spelled: dict[str, str] = {}
    for quote_or_not in quoting:
        after = _spellings(quote_or_not(new))
        before = _spellings(quote_or_not(old))
        spelled |= {f"{one}/": f"{after.get(kind, after['url'])}/" for kind, one in before.items()}
    sink = _NewNames(into, spelled, path)
    yield sink
    sink.end()


def _quoted(folder: str) -> str:
    return "".join(one if _is_plain(one) else quote(one, safe=_NOT_QUOTED) for one in folder)


def _is_plain(character: str) -> bool:
    """Return whether Java leaves a character beyond ASCII as it is: all but spaces and control characters."""
    return not character.isascii() and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc")


def _spellings(folder: str) -> dict[str, str]:
    """Return how Spark writes the full name of a folder."""
    return {"url": folder} if "://" in folder else {"url": f"file://{folder}", "short": f"file:{folder}"}


def _write(archive: Archive, file: SavedFile, into: Files, old: str, new: str) -> None:
    into.require_within(file.path)
    with (
        into.open_new(file.path) as target,
        _renamed(file.path, target, old=old, new=new) as renamed,
        _checked(file.path, renamed, old) as checked,
    ):
        download(archive, file, checked)


@contextmanager
def _checked(path: str, into: ByteSink, old: str) -> Iterator[ByteSink]:
    """Provide a sink that writes on to another one, and check what was written, before the file gets its name.

    Spark opens and writes files by the names in a snapshot of the state, in a commit, and in the description of an
    operator, which are in the `old` folder of the checkpoint.
    """
    check = _check_of(PurePosixPath(path), old)
    if check is None:
        yield into
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="panekeeper-") as copy:
        yield _Both(into, copy)
        copy.seek(0)
        try:
            check(copy)
        except ValueError as error:
            raise _never_written(path, str(error)) from error


def _check_of(path: PurePosixPath, old: str) -> Callable[[IO[bytes]], None] | None:
    if path.parts[0] == COMMITS_FOLDER:
        return lambda file: require_plain_ids(file.read())
    if path.parts[0] != STATE_FOLDER:
        return None
    if _is_description(str(path)) and not path.name.startswith("."):  # Hadoop's checksums are no text
        return lambda file: require_schemas_within(file.read(MAX_SMALL_BYTES + 1), partial(_is_within, old))
    return require_plain_names_in_snapshot if path.suffix == ".zip" else None


def _is_within(folder: str, file: str) -> bool:
    """Return whether a full name is one of a file in a folder, which a job may name by a link to it."""
    spelled = [one for name in (folder, _quoted(folder)) for one in _spellings(name).values()]
    if any(file.startswith(f"{one}/") for one in spelled):
        return True
    place, target = local_path(folder), local_path(file)
    if place is None or target is None:
        return False
    return os.path.realpath(target).startswith(f"{os.path.realpath(place)}/")


def _never_written(path: str, why: str) -> DamagedSavepoint:
    return DamagedSavepoint(
        f"{path} in the savepoint has content that Spark never writes ({why}); do not use this savepoint, and find out "
        "who can write to its location"
    )


class _Both:
    """A sink that writes on to two others."""

    def __init__(self, first: ByteSink, second: ByteSink) -> None:
        self._first, self._second = first, second

    def write(self, data: bytes, /) -> int:
        """Write the next piece and return its length."""
        self._first.write(data)
        self._second.write(data)
        return len(data)
