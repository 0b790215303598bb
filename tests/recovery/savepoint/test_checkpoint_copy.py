"""A file of a savepoint is written piece by piece, however large its blob, and names nothing outside of its folder."""

from __future__ import annotations

import hashlib
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from panekeeper.recovery.errors import DamagedSavepoint
from panekeeper.recovery.savepoint.checkpoint_copy import _is_within, write_checkpoint
from panekeeper.recovery.storage.archive import ByteSink
from panekeeper.recovery.storage.blobs import SavedFile
from panekeeper.recovery.storage.files import LocalFiles
from tests.recovery.savepoint.test_manifest import MANIFEST
from tests.recovery.storage.memory_archive import MemoryArchive

OLD = "/a/my jöb"
PIECE = 64 * 1024


class Pieces(MemoryArchive):
    """An archive with one blob, of one long line, which is nowhere as a whole."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.pieces = pieces

    def get(self, name: str, into: ByteSink) -> None:
        for _ in range(self.pieces):
            into.write(b"x" * PIECE)


def test_a_large_blob_takes_no_memory(tmp_path: Path) -> None:
    """32 MB, as its manifest says: anyone may have written both."""
    archive, size = Pieces(512), 512 * PIECE
    file = SavedFile(path="state/0/0/1.changelog", size=size, sha256=hashlib.sha256(b"x" * size).hexdigest())
    manifest = replace(MANIFEST, files=(file,))
    tracemalloc.start()
    try:
        write_checkpoint(archive, manifest, into=LocalFiles(tmp_path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / file.path).stat().st_size == size
    assert peak < 32 * PIECE


@pytest.mark.parametrize("place", ["file:/etc/", "s3a://theirs/"])
def test_a_description_of_state_that_names_files_elsewhere_is_refused(tmp_path: Path, place: str) -> None:
    """Spark would open them with the rights of whoever verifies or restores the savepoint."""
    content = f'v2\n{{"stateStoreInfo":[{{"stateSchemaFilePaths":["file:{tmp_path}/new/x","{place}x"]}}]}}'.encode()
    archive = MemoryArchive()
    digest = hashlib.sha256(content).hexdigest()
    archive.files[f"blobs/{digest}"] = content
    file = SavedFile(path="state/0/_metadata/v2/0", size=len(content), sha256=digest)
    manifest = replace(MANIFEST, checkpoint=OLD, files=(file,))
    with pytest.raises(DamagedSavepoint, match=f"it names '{place}x', which is not in the checkpoint"):
        write_checkpoint(archive, manifest, into=LocalFiles(tmp_path / "new"))


@pytest.mark.parametrize("store", ["", "left-keyToNumValues/"])
def test_the_schema_of_a_store_is_no_text(tmp_path: Path, store: str) -> None:
    """As `dropDuplicates` or a join before the window has one in each partition: with the lengths of what is in it."""
    schema = b"\x00\x00\x00\x00v2\n\x00\xd8{" + bytes(range(256))
    archive = MemoryArchive()
    blob = hashlib.sha256(schema).hexdigest()
    archive.files[f"blobs/{blob}"] = schema
    path = f"state/1/0/{store}_metadata/schema"
    file = SavedFile(path=path, size=len(schema), sha256=blob)
    manifest = replace(MANIFEST, checkpoint=OLD, files=(file,))
    write_checkpoint(archive, manifest, into=LocalFiles(tmp_path / "new"))
    assert (tmp_path / "new" / path).read_bytes() == schema


def test_a_job_may_name_its_checkpoint_by_a_link(tmp_path: Path) -> None:
    """And the command that makes a savepoint by the folder itself."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("link", "real"):
        assert _is_within(str(tmp_path / "real"), f"file:{tmp_path}/{name}/state/0/x")
    for name in ("real2/x", "other/x"):
        assert not _is_within(str(tmp_path / "real"), f"file:{tmp_path}/{name}")
