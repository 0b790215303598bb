"""A program that `spark-submit` starts: Java is its parent, and has the libraries that it was given."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark
import pytest

from integration_tests.class_archive import java_options
from integration_tests.engine.conftest import Readings
from panekeeper.framework.engine.session.java_libraries import DELTA, cached_jars

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "integration_tests" / "engine" / "readings_program.py"


def submit(cache: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `spark-submit` where no Java library can be fetched and none is kept."""
    environment = os.environ | {
        "PANEKEEPER_CACHE": str(cache),
        "DEFAULT_ARTIFACT_REPOSITORY": "http://127.0.0.1:9/",
        "PYTHONPATH": str(ROOT),
        "SPARK_SUBMIT_OPTS": java_options(),
    }
    command = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", "local[2]", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.release  # CI sends it to the Python side
def test_sigterm_to_the_java_side_drains_the_job(readings: Readings, tmp_path: Path) -> None:
    """It ends between two batches with its windows open, as by SIGTERM to Python, and fetched nothing."""
    readings.put(("a", "10:00:10", 1))
    cache = tmp_path / "cache"
    jars = ",".join(map(str, cached_jars(DELTA)))
    ended = submit(cache, "--jars", jars, PROGRAM, readings.folder, "end-spark")
    assert "ended after batch" in ended.stdout, ended.stdout[-4000:]
    assert not (cache / "jars").exists()
    assert readings.numbers("offsets") == readings.numbers("commits")
    readings.put(("a", "10:00:20", 2), ("a", "10:02:10", 4))
    readings.run()
    assert readings.log() == [("a", "10:00", 3, 2, 0, "WATERMARK")]


def test_a_library_that_was_not_given_is_named(tmp_path: Path) -> None:
    """The message has the option that adds it."""
    ended = submit(tmp_path / "cache", PROGRAM, tmp_path)
    assert ended.returncode != 0
    assert "started this program without Delta" in ended.stdout  # by way of Java
    assert "--packages io.delta:delta-spark" in ended.stdout
