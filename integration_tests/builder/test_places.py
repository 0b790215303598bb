"""Where relative paths begin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from panekeeper.framework.builder.places import qualified_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tables_lie_where_spark_reads_after_the_program_has_gone_elsewhere(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A relative path begins in the folder in which the session was started, for inputs, tables and checkpoints."""
    monkeypatch.chdir(tmp_path)
    read = spark.read.format("binaryFile").load("pyproject.toml").inputFiles()[0]
    assert qualified_path("pyproject.toml") == read.removeprefix("file://")
