"""Keeps Delta's Java libraries in a folder of this machine, so that only the first start asks the network.

They are resolved by Spark's own client (Ivy), which verifies checksums and honours a user's mirrors
(`DEFAULT_ARTIFACT_REPOSITORY`, `spark.jars.ivySettings` in `SPARK_CONF_DIR`). Knows no session.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from framework.engine.environment import DELTA_VERSION, SPARK_SERIES
from framework.errors import SetupError

_COORDINATE = f"io.delta:delta-spark_{SPARK_SERIES}_2.13:{DELTA_VERSION}"

# Delta's build names libraries that Spark ships itself in newer versions; Spark's own would win on the class path
# anyway, so they are not fetched: 14 MB instead of 87.
_SHIPPED_BY_SPARK = (
    "com.fasterxml.jackson.core:*",
    "com.github.luben:*",
    "com.google.code.findbugs:*",
    "commons-logging:*",
    "commons-pool:*",
    "io.airlift:*",
    "org.apache.hadoop:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)


def cache_folder() -> Path:
    """Where fetched files are kept: `PANEKEEPER_CACHE`, by default `~/.cache/panekeeper`."""
    given = os.environ.get("PANEKEEPER_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "panekeeper"


def delta_jars() -> list[Path]:
    """Delta's jars as local files, fetched if they are not there yet.

    Raises:
        SetupError: they are not in the cache and cannot be fetched.
    """
    folder = cache_folder().absolute() / "jars" / f"delta-{DELTA_VERSION}-spark-{SPARK_SERIES}"
    if not folder.is_dir():
        _fetch(folder)
    return sorted(folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    """Fetches into a folder of its own and renames it: the cache holds all jars or none, whoever else fetches too."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".fetching-"))
    try:
        _resolve(work)
        try:
            (work / "jars").rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was first, with the same files
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _resolve(work: Path) -> None:
    """Lets `spark-submit` resolve the package for a program that does nothing: no Spark context is started."""
    program = work / "nothing.py"
    program.touch()
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[1]"),
        *("--packages", _COORDINATE),
        *("--exclude-packages", ",".join(_SHIPPED_BY_SPARK)),
        *("--conf", f"spark.jars.ivy={work}"),
        str(program),
    ]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or not list((work / "jars").glob("*delta-spark*.jar")):
        said = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        raise SetupError(
            f"Delta's Java libraries ({_COORDINATE}) could not be fetched from Maven Central; "
            f"the first start needs the network, or a mirror in DEFAULT_ARTIFACT_REPOSITORY. "
            f"Spark said: {_reason(said)}"
        )


def _reason(said: list[str]) -> str:
    """The line of Spark's output that tells most: the first that speaks of a failure, else the last."""
    failures = [line for line in said if "not found" in line or "Exception" in line or "unresolved" in line]
    return (failures or said or ["nothing"])[0 if failures else -1]
