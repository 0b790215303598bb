"""Checkpoints that older versions left: each is resumed, and goes on as though nothing had happened."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.frozen.jobs import AFTER, EXPECTED, JOBS, archive, put, results, start
from panekeeper.recovery.savepoint.catalog import show, verify
from panekeeper.recovery.savepoint.checkpoint_copy import rewrite_paths, write_checkpoint
from panekeeper.recovery.storage.local_files import LocalFiles
from panekeeper.recovery.storage.locations import open_archive
from panekeeper.state.codec import STATE_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = range(1, STATE_VERSION + 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_state_version_has_a_frozen_checkpoint(version: int) -> None:
    """Whoever raises the version freezes one: `python -m integration_tests.frozen.make`."""
    assert archive(version).is_file()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_checkpoint_is_resumed(version: int, spark: SparkSession, tmp_path: Path) -> None:
    """State, raw contents, a handler's state, manifest and tables are read, and the results are those of one run."""
    with tarfile.open(archive(version)) as packed:
        packed.extractall(tmp_path, filter="data")
    saved = open_archive(tmp_path / "saved")
    for name in JOBS:
        verify(saved, name, deep=name == "sliding", spark=spark)  # that one has a value of every kind
        folder, manifest = tmp_path / name, show(saved, name)
        assert manifest.state_version == version
        checkpoint = LocalFiles(folder / "checkpoint")
        write_checkpoint(saved, manifest, into=checkpoint, checkpoint_path=checkpoint.root)
        rewrite_paths(checkpoint, old=str(Path(manifest.checkpoint).parent), new=str(folder))  # its input files
        put(folder / "in", AFTER, first=2)
    for job in [start(spark, tmp_path / name, name) for name in JOBS]:
        assert job.await_end(timeout=300)
    assert {name: results(spark, tmp_path / name, name) for name in JOBS} == EXPECTED
