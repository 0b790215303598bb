"""The state of a checkpoint as of its last committed batch, read by Spark as a table."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.file_manager import FORMAT_SETTING
from panekeeper.framework.engine.session.required_settings import session_settings
from panekeeper.state.spark_logs import state_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def format_of_state(spark: SparkSession, checkpoint: str) -> AbstractContextManager[None]:
    """Give the session the format of the state that it reads: with another one Spark finds none."""
    stored = state_format(CheckpointFiles(spark, checkpoint))
    return session_settings(spark, {} if stored is None else {FORMAT_SETTING: stored})


def stored_state(spark: SparkSession, checkpoint: str, variable: str) -> DataFrame:
    """Return the entries of a state variable; read them while `format_of_state` lasts.

    Args:
        spark: the session that reads.
        checkpoint: full name of the folder.
        variable: `HEADER` or `SEGMENTS` of `panekeeper.state.spark_store`.
    """
    # Creates the coordinator to which a state store reports its snapshots. Without it, reading fails in a session that
    # has run no query yet, such as that of a subcommand.
    spark.streams.active  # noqa: B018
    return spark.read.format("statestore").option("stateVarName", variable).load(checkpoint)
