"""How much would the next micro-batch read, and is it there? Spark takes all files, if the stream has no limit.

A micro-batch that does not fit into memory fails at every start: its offsets are logged, so it is always the same. So
it is refused before that, at each start: the files may be there from the beginning, or have come while the job was
down. While it runs Spark offers no place to refuse a batch before its offsets are logged (docs/decisions/0018).

A batch that is run again reads the files that Spark has logged for it. One that is gone meanwhile Spark leaves out,
without an error, and its rows would be in no table. So that is refused, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from framework.declarations.errors import CheckpointError, SetupError
from framework.engine.session.session import usable_memory
from state.checkpoint.folder import batch_numbers
from state.checkpoint.layout import OFFSETS_FOLDER, SOURCES_FOLDER
from state.checkpoint.run_record import last_batches
from state.spark_logs import LogFolder, has_read, log_lines, needed_entries, source_ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.engine.session.checkpoint_files import CheckpointFiles

_LIMITS = {"maxfilespertrigger", "maxbytespertrigger"}
_SHARE = 4
"""The files of a micro-batch may have this part of the memory of the machine."""
_SCHEME_OF_DISK = re.compile("^file:/+")


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


def require_files_of_unfinished_batch(files: CheckpointFiles, accepted: int | None) -> None:
    """Check that the files of a batch that is run again are still there.

    Args:
        files: the job's checkpoint.
        accepted: number of the batch that the user wants to be run again with what there is.

    Raises:
        CheckpointError: some are gone.
    """
    begun, committed = last_batches(files)
    if begun is None or begun in (committed, accepted):
        return
    gone = [url for url in files_of_batch(files.local_folder() or files, begun) if not _is_there(files.spark, url)]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise CheckpointError(
            f"batch {begun} of {files.root} is not finished, and files that it reads are gone: {gone[0]}{more}. "
            "Without them their rows would be in no table, and results that a table has already would not fit. Put "
            f"them back, under the same names; if they are lost, start(..., accept_changed_code={begun}) runs it "
            "without them"
        )


def files_of_batch(folder: LogFolder, batch: int) -> Iterator[str]:
    """Yield the URL of each file that a batch reads; but for those of the control stream, its last source."""
    if batch and batch - 1 not in batch_numbers(folder, OFFSETS_FOLDER):
        return  # where it begins is not known
    ends, before = source_ends(folder, batch), source_ends(folder, batch - 1) if batch else []
    for source, end in enumerate(ends[:-1]):
        if end is None:
            continue
        for name in needed_entries(folder.names(f"{SOURCES_FOLDER}/{source}")):
            if has_read(before, source, int(name.partition(".")[0])):
                continue
            for line in log_lines(folder, f"{SOURCES_FOLDER}/{source}/{name}"):
                entry = line.get("batchId") if isinstance(line, dict) and "path" in line else None
                if entry is not None and entry <= end and not has_read(before, source, entry):
                    yield line["path"]


def _is_there(spark: SparkSession, url: str) -> bool:
    """Return whether a file exists; also if that cannot be found out, as Spark then says why when it reads."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    try:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
        system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
        return bool(system.exists(path))
    except Exception:  # noqa: BLE001 -- whatever it is
        return True


def reads_files(df: DataFrame) -> bool:
    """Return whether a stream reads files, or tables of files, which Spark splits into tasks."""
    return any(leaf.getClass().getSimpleName() == "StreamingRelation" for leaf in _leaves(df))


def reads_kafka(df: DataFrame) -> bool:
    """Return whether a stream reads topics of Kafka."""
    relations = (leaf for leaf in _leaves(df) if leaf.getClass().getSimpleName() == "StreamingRelationV2")
    return any(relation.sourceName() == "kafka" for relation in relations)


def _leaves(df: DataFrame) -> Iterator[Any]:
    leaves: Any = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 -- a plan has no public reader
    yield from (leaves.apply(number) for number in range(leaves.size()))


def _unlimited_paths(df: DataFrame) -> Iterator[str]:
    """Yield the paths that are read as plain files, without a limit for a micro-batch."""
    for leaf in _leaves(df):
        if leaf.getClass().getSimpleName() != "StreamingRelation" or not leaf.sourceName().startswith("FileSource["):
            continue
        options = leaf.dataSource().options()
        if _LIMITS.isdisjoint(options.keySet().mkString("\n").lower().splitlines()):
            yield leaf.sourceName().removeprefix("FileSource[").removesuffix("]")


def _unread_bytes(df: DataFrame, path: str, found: Iterable[str]) -> int:
    """Return how many bytes are in files that no batch has read; Spark lists them."""
    known = {_plain(unquote(url)) for url in found}
    files = df.sparkSession.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    listed = files.select("path", "length").toArrow()
    pairs = zip(listed.column("path").to_pylist(), listed.column("length").to_pylist(), strict=True)
    return sum(size for name, size in pairs if known.isdisjoint({_plain(name), _plain(unquote(name))}))


def _plain(url: str) -> str:
    """Return a file's URL in one spelling.

    >>> _plain("file:///in/1.json"), _plain("file:/in/1.json"), _plain("s3a://bucket/1.json")
    ('/in/1.json', '/in/1.json', 's3a://bucket/1.json')
    """
    return _SCHEME_OF_DISK.sub("/", url)


def _bytes_below(df: DataFrame, path: str) -> int:
    spark = df.sparkSession
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    pattern = jvm.org.apache.hadoop.fs.Path(path)
    files = pattern.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
    found = files.globStatus(pattern) or []
    return sum(int(files.getContentSummary(one.getPath()).getLength()) for one in found)
