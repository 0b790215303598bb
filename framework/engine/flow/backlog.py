"""How much would the first micro-batch of a job read? Spark takes all files that are there, if the stream has no limit.

A micro-batch that does not fit into memory fails at every start: its offsets are logged, so it is always the same. So
it is refused before that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import SetupError
from framework.engine.session.session import usable_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIMITS = {"maxfilespertrigger", "maxbytespertrigger"}
_SHARE = 4
"""The files of a micro-batch may have this part of the memory of the machine."""


def require_bounded_first_batch(df: DataFrame) -> None:
    """Check the files that a new job reads without a limit.

    Args:
        df: the stream of one port.

    Raises:
        SetupError: they are too many bytes for one micro-batch.
    """
    most = usable_memory() // _SHARE
    for path in _unlimited_paths(df):
        size = _bytes_below(df, path)
        if size > most:
            raise SetupError(
                f"the files in {path} have {size / 1e9:.1f} GB, and the first micro-batch would read all of them at "
                'once, as the stream has no limit: give it one, such as spark.readStream.option("maxFilesPerTrigger", '
                '10) or .option("maxBytesPerTrigger", "256m")'
            )


def _unlimited_paths(df: DataFrame) -> Iterator[str]:
    """Yield the paths that are read as plain files, without a limit for a micro-batch."""
    leaves: Any = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 -- a plan has no public reader
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() != "StreamingRelation" or not leaf.sourceName().startswith("FileSource["):
            continue
        options = leaf.dataSource().options()
        if _LIMITS.isdisjoint(options.keySet().mkString("\n").lower().splitlines()):
            yield leaf.sourceName().removeprefix("FileSource[").removesuffix("]")


def _bytes_below(df: DataFrame, path: str) -> int:
    spark = df.sparkSession
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    pattern = jvm.org.apache.hadoop.fs.Path(path)
    files = pattern.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
    found = files.globStatus(pattern) or []
    return sum(int(files.getContentSummary(one.getPath()).getLength()) for one in found)
