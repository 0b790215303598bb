"""A manifest is read as it was written, or refused by an error that says which way it is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from panekeeper.recovery.errors import DamagedSavepoint, ForeignManifest, NewerSavepoint, SavepointError
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.blobs import SavedFile
from panekeeper.recovery.storage.delta_tables import SavedTable

FILES = ("commits/7", "metadata", "offsets/7", "panekeeper/job.json")
MANIFEST = Manifest(
    name="one",
    made_at=datetime(2024, 5, 1, 12, tzinfo=UTC),
    checkpoint="/out/checkpoint",
    job="readings",
    job_id="0123456789ab",
    epoch=2,
    state_version=1,
    declaration={"window.kind": "timeInterval", "keys": ["a"]},
    batch=7,
    unfinished=None,
    settings={"spark.sql.shuffle.partitions": "2"},
    versions={"pyspark": "4.2.0"},
    tables={"log": SavedTable(path="/out/log", version=9, sha256="cd" * 32)},
    files=tuple(SavedFile(path=path, size=3, sha256="ab" * 32) for path in FILES),
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    """With every field."""
    assert Manifest.decode(MANIFEST.encode(), "one") == MANIFEST


def test_a_manifest_names_tables_that_were_gone_if_there_were_any() -> None:
    """The bytes of all others are as they were before it could; a table of no role is refused."""
    assert b"gone" not in MANIFEST.encode()
    made = replace(MANIFEST, gone={"view": "/out/view"})
    assert Manifest.decode(made.encode(), "one") == made
    assert made.paths == {"log": "/out/log", "view": "/out/view"}
    with pytest.raises(DamagedSavepoint, match="gone has more than log, view"):
        Manifest.decode(replace(made, gone={"state": "/out/view"}).encode(), "one")


def test_a_manifest_truncated_anywhere_is_damaged() -> None:
    """No prefix of it is taken for the whole."""
    data = MANIFEST.encode()
    for end in [0, *range(40, len(data), 7)]:
        with pytest.raises(DamagedSavepoint, match="truncated"):
            Manifest.decode(data[:end], "one")


def test_an_altered_manifest_fails_its_checksum() -> None:
    """For example in the version of a table."""
    with pytest.raises(DamagedSavepoint, match="checksum"):
        Manifest.decode(MANIFEST.encode().replace(b'"version": 9', b'"version": 8'), "one")


def test_a_manifest_under_another_name_is_not_taken() -> None:
    """A file that was copied or renamed by hand."""
    with pytest.raises(DamagedSavepoint, match="'two' does not belong"):
        Manifest.decode(MANIFEST.encode(), "two")


@pytest.mark.parametrize("data", [b"{}", b"[1]", b"hello", b"\xff\xfe", b'{"kind": "other", "format": 1}'])
def test_a_file_of_someone_else_is_foreign(data: bytes) -> None:
    """It is not reported as damaged."""
    with pytest.raises(ForeignManifest, match="was not written by Panekeeper"):
        Manifest.decode(data, "one")


def test_a_newer_format_is_reported_before_its_content_is_checked() -> None:
    """Its checksum may be computed otherwise."""
    whole = json.loads(MANIFEST.encode()) | {"format": 3, "sha256": "?"}
    with pytest.raises(NewerSavepoint, match="has format 3, this Panekeeper reads format 1"):
        Manifest.decode(json.dumps(whole).encode(), "one")


@pytest.mark.parametrize(
    "path", ["panekeeper/prepared/1-7", "panekeeper/prepared/1-7-ab/part-0", "panekeeper/claims/3", "panekeeper/claims"]
)
def test_a_file_that_belongs_to_its_folder_only_is_refused(path: str) -> None:
    """A start would write the rows of a prepared batch to whatever tables it names."""
    made = replace(MANIFEST, files=(*MANIFEST.files, SavedFile(path=path, size=1, sha256="ab" * 32)))
    with pytest.raises(SavepointError, match="is not a file that belongs in a savepoint"):
        Manifest.decode(made.encode(), "one")
