"""Does what a start reads at once fit into memory?

Spark takes all files, if the stream has no limit. A micro-batch that does not fit into memory fails at every start: its
offsets are logged, so it is always the same. So it is refused before that, at each start: the files may be there from
the beginning, or have come while the job was down. While it runs Spark offers no place to refuse a batch before its
offsets are logged (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session.session import usable_memory
from panekeeper.framework.engine.sources.streams import file_system, leaves, options_of, path_of_files
from panekeeper.state.checkpoint.folder import plain_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LIMITS = {"maxfilespertrigger", "maxbytespertrigger"}
_SHARE = 4
"""The files of a micro-batch may have this part of the memory of the machine."""


def require_bounded_batch(df: DataFrame, found: Callable[[], Iterable[str]]) -> None:
    """Check the files that the next micro-batch of a job reads without a limit.

    Args:
        df: the stream of one port.
        found: returns the URLs of the files that earlier batches have read; called only if all files are too many.

    Raises:
        SetupError: they are too many bytes for one micro-batch.
    """
    most = usable_memory() // _SHARE
    for path in _unlimited_paths(df):
        size = _bytes_below(df, path)
        if size > most:
            size = _unread_bytes(df, path, found())
        if size > most:
            raise SetupError(
                f"the files in {path} that are not read yet have {size / 1e9:.1f} GB, and the next micro-batch would "
                "read all of them at once, as the stream has no limit: give it one, such as "
                'spark.readStream.option("maxFilesPerTrigger", 10) or .option("maxBytesPerTrigger", "256m")'
            )


def _unlimited_paths(df: DataFrame) -> Iterator[str]:
    """Yield the paths that are read as plain files, without a limit for a micro-batch."""
    for leaf in leaves(df):
        path = path_of_files(leaf)
        if path is not None and _LIMITS.isdisjoint(options_of(leaf)):
            yield path


def _unread_bytes(df: DataFrame, path: str, found: Iterable[str]) -> int:
    """Return how many bytes are in files that no batch has read; Spark lists them."""
    known = {plain_url(unquote(url)) for url in found}
    files = df.sparkSession.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    listed = files.select("path", "length").toArrow()
    pairs = zip(listed.column("path").to_pylist(), listed.column("length").to_pylist(), strict=True)
    return sum(size for name, size in pairs if known.isdisjoint({plain_url(name), plain_url(unquote(name))}))


def _bytes_below(df: DataFrame, path: str) -> int:
    spark = df.sparkSession
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    pattern = jvm.org.apache.hadoop.fs.Path(path)
    files = file_system(spark, pattern)
    found = files.globStatus(pattern) or []
    return sum(int(files.getContentSummary(one.getPath()).getLength()) for one in found)
