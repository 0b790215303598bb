"""Checkpoints that released versions left: each is resumed, and goes on as though nothing had happened."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.frozen.jobs import AFTER, EXPECTED, JOBS, archive, put, results, start
from panekeeper.recovery.savepoint.catalog import show, verify
from panekeeper.recovery.savepoint.checkpoint_copy import write_checkpoint
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.recovery.storage.locations import open_archive
from panekeeper.state.checkpoint.epochs import Pointer, create_pointer, epoch_folder
from panekeeper.state.checkpoint.folder import INPUTS_FILE, SOURCES_FOLDER
from panekeeper.state.codec import STATE_VERSION
from panekeeper.state.own_paths import with_new_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERSIONS = range(1, STATE_VERSION + 1)


def move_inputs(epoch: LocalFiles, *, old: str, new: str) -> None:
    """Let a checkpoint say that its input files were in another folder."""
    names = [file.relative_to(epoch.path).as_posix() for file in (epoch.path / SOURCES_FOLDER).rglob("*")]
    for name in filter(lambda one: (epoch.path / one).is_file(), names):
        epoch.write(name, with_new_path(name, epoch.read(name), old=old, new=new), replace=True)
    epoch.write(INPUTS_FILE, epoch.read(INPUTS_FILE).replace(old.encode(), new.encode()), replace=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_state_version_has_a_frozen_checkpoint(version: int) -> None:
    """Whoever raises the version freezes one: `python -m integration_tests.frozen.make`."""
    assert archive(version).is_file()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_frozen_checkpoint_is_resumed(version: int, spark: SparkSession, tmp_path: Path) -> None:
    """State, raw contents, a handler's state, manifest and tables are read, and the results are those of one run."""
    subprocess.run(["tar", "-xf", archive(version), "-C", tmp_path], check=True)  # older 3.11 have no `filter`
    saved = open_archive(tmp_path / "saved")
    for name in JOBS:
        verify(saved, name, deep=name == "sliding", spark=spark)  # that one has a value of every kind
        folder, manifest = tmp_path / name, show(saved, name)
        assert manifest.state_version == version
        root = LocalFiles(folder / "checkpoint")
        epoch = epoch_folder(root, manifest.epoch)
        write_checkpoint(saved, manifest, into=epoch)
        create_pointer(root, Pointer(name=manifest.job, id=manifest.job_id, epoch=manifest.epoch))
        move_inputs(epoch, old=str(Path(manifest.checkpoint).parent), new=str(folder))
        put(folder / "in", AFTER, first=2)
    for job in [start(spark, tmp_path / name, name) for name in JOBS]:
        assert job.await_end(timeout=300)
    assert {name: results(spark, tmp_path / name, name) for name in JOBS} == EXPECTED
