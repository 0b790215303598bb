"""Whether a checkpoint or a table can be written to a place: by the driver, by the executors, and read back."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from panekeeper.framework.builder.places import qualified_path
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.spark_errors import first_line
from panekeeper.state.checkpoint.folder import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = 1000


def place_problem(spark: SparkSession, place: str) -> str | None:
    """Return why jobs cannot use a place; None if they can. What it writes there, it removes again.

    Args:
        spark: the session of the jobs.
        place: path or URL of a folder, which need not exist.
    """
    try:
        folder = qualified_path(place)
    except DeclarationError as error:
        return str(error)
    if ":/" not in place and local_path(folder) is not None and not str(spark.sparkContext.master).startswith("local"):
        return (
            "it is a folder of each machine: a cluster needs one that all of them share. Give it as a URL "
            "(s3a://bucket/path), or as file:///path if every machine mounts the same disk there"
        )
    scratch = f"{folder.rstrip('/')}/_panekeeper_doctor_{uuid.uuid4().hex[:8]}"
    try:
        CheckpointFiles(spark, scratch).write_json("driver.json", {"written": True})
        spark.range(_ROWS).write.parquet(f"{scratch}/executors")
        found = spark.read.parquet(f"{scratch}/executors").count()
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is the result
        return f"it cannot be written and read back: {first_line(error)}"
    finally:
        _remove(spark, scratch)
    return None if found == _ROWS else f"executors wrote {_ROWS} rows to it, and {found} were read back"


def _remove(spark: SparkSession, folder: str) -> None:
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    path = jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(spark._jsc.hadoopConfiguration()).delete(path, True)  # noqa: SLF001 -- as above
