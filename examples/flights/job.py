"""The job of the demo as commands with `--job` take it, over the flights and tables of `out/demo`."""

from typing import TYPE_CHECKING

from examples.flights.pipeline import declared, files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob


def job(spark: "SparkSession") -> "DeltaJob":
    """Return the declared job."""
    return declared(files(spark, "out/demo/input"), "out/demo")
