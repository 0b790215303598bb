"""The job of the demo as commands with `--job` take it, over the flights and tables of `out/demo`."""

from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights.pipeline import declared, files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob


def job(spark: "SparkSession") -> "DeltaJob":
    """Return the declared job."""
    out = Path("out/demo").absolute()  # Java may have begun in another folder
    return declared(files(spark, f"{out}/input"), str(out))
