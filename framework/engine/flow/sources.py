"""What do the sources of a job read: how much at once, is it there, and is it what they have read before?

Spark takes all files, if the stream has no limit. A micro-batch that does not fit into memory fails at every start: its
offsets are logged, so it is always the same. So it is refused before that, at each start: the files may be there from
the beginning, or have come while the job was down. While it runs Spark offers no place to refuse a batch before its
offsets are logged (docs/decisions/0018).

A batch that is run again reads the files that Spark has logged for it. One that is gone meanwhile Spark leaves out,
without an error, and its rows would be in no table. So that is refused, too.

Spark knows a source by its number, and a file by its whole path. So streams in another order, or files that were moved,
would be read again from the beginning, if the last batch had no row of theirs; else Spark fails. What each number
stands for is recorded in `panekeeper/inputs.json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from framework.declarations.errors import CheckpointError, IncompatibleCheckpoint, SetupError
from framework.engine.session.session import usable_memory
from state.checkpoint.folder import batch_numbers
from state.checkpoint.layout import OFFSETS_FOLDER, SOURCES_FOLDER
from state.checkpoint.run_record import Input, is_new, last_batches, read_inputs
from state.spark_logs import LogFolder, has_read, log_lines, needed_entries, source_ends

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.engine.session.checkpoint_files import CheckpointFiles
    from state.checkpoint.folder import CheckpointFolder

_LIMITS = {"maxfilespertrigger", "maxbytespertrigger"}
_SHARE = 4
"""The files of a micro-batch may have this part of the memory of the machine."""
_SCHEME_OF_DISK = re.compile("^file:/+")
_FILES, _BY_NAME = "FileSource[", "filenameonly"
_WHERE = ("subscribe", "subscribepattern", "assign", "path")
"""Options that say what a source reads."""
_GLOB = re.compile(r"[*?\[{]")


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
    return any(_kind(leaf) == "StreamingRelation" for leaf in leaves(df))


def reads_kafka(df: DataFrame) -> bool:
    """Return whether a stream reads topics of Kafka."""
    return any(leaf.sourceName() == "kafka" for leaf in leaves(df) if _kind(leaf) == "StreamingRelationV2")


def leaves(df: DataFrame) -> Iterator[Any]:
    """Yield what a stream is made of: its sources, in the order in which Spark numbers them, and tables at rest."""
    found: Any = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 -- a plan has no public reader
    yield from (found.apply(number) for number in range(found.size()))


def options_of(leaf: Any) -> dict[str, str]:
    """Return the options of a source by their names in lower case."""
    if _kind(leaf) == "StreamingRelation":
        options = leaf.dataSource().options()
        found = {name: options.apply(name) for name in options.keySet().mkString("\n").splitlines()}
    else:
        found = dict(leaf.extraOptions().asCaseSensitiveMap()) if _kind(leaf) == "StreamingRelationV2" else {}
    return {name.lower(): value for name, value in found.items()}


def _kind(leaf: Any) -> str:
    return str(leaf.getClass().getSimpleName())


def inputs_of(streams: Iterable[DataFrame]) -> list[Input]:
    """Return what the sources of a job's ports read, by their numbers; that of the control stream comes after them."""
    return [_input(df, leaf) for df in streams for leaf in leaves(df) if _kind(leaf).startswith("StreamingRelation")]


def _input(df: DataFrame, leaf: Any) -> Input:
    name, options = str(leaf.sourceName()), options_of(leaf)
    if name.startswith(_FILES):
        path = _qualified(df.sparkSession, name.removeprefix(_FILES).removesuffix("]"))
        return Input(kind="files", place=path, by_name=options.get(_BY_NAME, "").lower() == "true")
    return Input(kind=name, place=next((options[one] for one in _WHERE if one in options), ""))


def _qualified(spark: SparkSession, path: str) -> str:
    """Return a path as Spark logs it; as it is, if its file system cannot be reached: then Spark says why."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(path)
        system = hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
        return str(hadoop.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())
    except Exception:  # noqa: BLE001 -- whatever it is
        return path


def require_same_inputs(folder: CheckpointFolder, name: str, now: Sequence[Input]) -> None:
    """Check that each source of a job reads what the source of its number has read until now.

    Args:
        folder: the checkpoint.
        name: of the job.
        now: what the sources are to read.

    Raises:
        IncompatibleCheckpoint: they read it in another order, or files in another place.
        CorruptState: the record of it is damaged.
    """
    before = None if is_new(folder) else read_inputs(folder)
    if before is None or len(before) != len(now):  # Spark refuses another number of sources itself
        return
    pairs = [(old, new) for old, new in zip(before, now, strict=True) if (old.kind, old.place) != (new.kind, new.place)]
    others = {(old.kind, old.place) for old, _ in pairs}
    if any((new.kind, new.place) in others for _, new in pairs):
        raise IncompatibleCheckpoint(
            f"the streams of job {name!r} are in another order than before: {_names(now)} now, and {_names(before)} in "
            f"the checkpoint {folder.root}. Spark knows them by their place, so rows would be read again. Put them in "
            "the order of before"
        )
    for old, new in pairs:
        if old.kind == new.kind == "files" and not new.by_name and not _share_a_folder(old.place, new.place):
            raise IncompatibleCheckpoint(
                f"job {name!r} has read {old.place}, and is to read {new.place} now: files that were moved there would "
                "be read again, as Spark knows them by their whole path. Let it read the folder of before, or one "
                "above both; or, if each file keeps its own name for good, set the option fileNameOnly of the stream "
                "to true, by which Spark knows files by their names alone"
            )


def _names(inputs: Iterable[Input]) -> str:
    return ", ".join(one.place or one.kind for one in inputs)


def _share_a_folder(one: str, other: str) -> bool:
    """Return whether one of two paths, which may have globs, lies within the other: a file has one name in both.

    >>> _share_a_folder("file:/in", "file:/in/2024"), _share_a_folder("file:/in/*/a", "file:/in/2024/b")
    (True, True)
    >>> _share_a_folder("file:/in", "file:/in2")
    False
    """
    first, second = (_SCHEME_OF_DISK.sub("/", f"{_folder(path)}/") for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def _folder(path: str) -> str:
    glob = _GLOB.search(path)
    return path if glob is None else path[: glob.start()].rpartition("/")[0]


def require_same_folder(now: str, before: str | None, root: str) -> None:
    """Refuse a checkpoint that was moved, or is named by a link: Spark's logs and state have its full name.

    Args:
        now: URL of its control stream.
        before: the same as Spark's log has it; None if it has none.
        root: the checkpoint, as it is named now.

    Raises:
        CheckpointError: they are not the same.
    """
    if before is None or _plain(unquote(before)) == _plain(unquote(now)):
        return
    raise CheckpointError(
        f"the checkpoint {root} was written in another folder, whose name stands in Spark's logs: {before} is that of "
        "its control stream. Start the job with that folder: move it back, or let a link of its old name lead to it. "
        "To move it for good, make a savepoint there, and restore it to the new folder"
    )


def _unlimited_paths(df: DataFrame) -> Iterator[str]:
    """Yield the paths that are read as plain files, without a limit for a micro-batch."""
    for leaf in leaves(df):
        is_file = _kind(leaf) == "StreamingRelation" and leaf.sourceName().startswith(_FILES)
        if is_file and _LIMITS.isdisjoint(options_of(leaf)):
            yield leaf.sourceName().removeprefix(_FILES).removesuffix("]")


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
