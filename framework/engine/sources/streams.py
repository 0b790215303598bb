"""The sources of a stream as Spark plans them: their options, their files, and whether these fit into a micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session.session import usable_memory
from panekeeper.state.checkpoint.folder import plain_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES = "FileSource["
"""With this begins Spark's name of a source that reads plain files; its path and a bracket follow."""
_PARTITION = ("topic", "partition")
"""Columns of Spark's source for Kafka."""
_LIMITS = {"maxfilespertrigger", "maxbytespertrigger"}
_SHARE = 4
"""The files of a micro-batch may have this part of the memory of the machine."""


def plan_of(df: DataFrame) -> Any:
    """Return the analyzed plan of a stream."""
    return df._jdf.queryExecution().analyzed()  # noqa: SLF001 -- a plan has no public form


def nodes(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan, from its result to its sources."""
    yield plan
    children = plan.children()
    for number in range(children.size()):
        yield from nodes(children.apply(number))


def leaves(df: DataFrame) -> Iterator[Any]:
    """Yield what a stream is made of: its sources, in the order in which Spark numbers them, and tables at rest."""
    plan_leaves: Any = plan_of(df).collectLeaves()
    yield from (plan_leaves.apply(number) for number in range(plan_leaves.size()))


def kind_of(node: Any) -> str:
    """Return the name of the class of a node of a plan, such as a source."""
    return str(node.getClass().getSimpleName())


def sources_of(streams: Iterable[DataFrame]) -> list[tuple[DataFrame, Any]]:
    """Return the sources of the streams, each with its stream, by their numbers; tables at rest have none."""
    return [(df, leaf) for df in streams for leaf in leaves(df) if kind_of(leaf).startswith("StreamingRelation")]


def options_of(leaf: Any) -> dict[str, str]:
    """Return the options of a source by their names in lower case."""
    if kind_of(leaf) == "StreamingRelation":
        options = leaf.dataSource().options()
        given_options = {name: options.apply(name) for name in options.keySet().mkString("\n").splitlines()}
    else:
        given_options = dict(leaf.extraOptions().asCaseSensitiveMap()) if kind_of(leaf) == "StreamingRelationV2" else {}
    return {name.lower(): value for name, value in given_options.items()}


def kafka_partition(df: DataFrame) -> tuple[str, ...] | None:
    """Return the columns that tell from which partition of Kafka a row is, as they come from there.

    Returns:
        None if the stream has another source, or several; no names if it comes from Kafka, and has these no more.
    """
    sources = [leaf for _, leaf in sources_of([df])]
    if len(sources) != 1 or kind_of(sources[0]) != "StreamingRelationV2" or sources[0].sourceName() != "kafka":
        return None
    own, output = sources[0].outputSet(), plan_of(df).output()
    kept = [output.apply(n).name() for n in range(output.size()) if own.contains(output.apply(n))]
    return _PARTITION if {*_PARTITION} <= {*kept} else ()


def path_of_files(leaf: Any) -> str | None:
    """Return the path of a source that reads plain files, which may have globs; None for another one."""
    name = str(leaf.sourceName()) if kind_of(leaf) == "StreamingRelation" else ""
    return name.removeprefix(_FILES).removesuffix("]") if name.startswith(_FILES) else None


def file_system(spark: SparkSession, path: Any) -> Any:
    """Return Hadoop's file system of a path of Hadoop, with the settings of the session."""
    return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- no public way


def count_files(spark: SparkSession, path: str) -> int:
    """Return how many files lie where a source of files reads.

    Those that Spark passes over, such as `_SUCCESS`, do not count if they lie in the folder itself.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    pattern = jvm.org.apache.hadoop.fs.Path(path)
    files = file_system(spark, pattern)
    there = [status.getPath() for status in files.globStatus(pattern) or []]
    hidden = [files.globStatus(jvm.org.apache.hadoop.fs.Path(place, "[._]*")) or [] for place in there]
    return sum(int(files.getContentSummary(place).getFileCount()) for place in there) - sum(map(len, hidden))


def qualified(spark: SparkSession, path: str) -> str:
    """Return a path as Spark logs it; as it is, if its file system cannot be reached: then Spark says why."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(path)
        system = file_system(spark, hadoop)
        return str(hadoop.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())
    except Exception:  # noqa: BLE001 -- whatever it is
        return path


def require_bounded_batch(df: DataFrame, files_read: Callable[[], Iterable[str]]) -> None:
    """Raise `SetupError` if the next micro-batch would read more bytes of files at once than fit into memory.

    Spark takes all files, if the stream has no limit. A micro-batch that does not fit into memory fails at every start:
    its offsets are logged, so it is always the same. So each start looks before that: the files may be there from the
    beginning, or have come while the job was down. While it runs Spark offers no place to refuse a batch before its
    offsets are logged (docs/decisions/0018). `files_read` returns the URLs of the files that earlier batches have read;
    it is called only if all files are too many.
    """
    spark, most = df.sparkSession, usable_memory() // _SHARE
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    for leaf in leaves(df):
        path = path_of_files(leaf)
        if path is None or not _LIMITS.isdisjoint(options_of(leaf)):
            continue
        pattern = jvm.org.apache.hadoop.fs.Path(path)
        files = file_system(spark, pattern)
        there = files.globStatus(pattern) or []
        size = sum(int(files.getContentSummary(status.getPath()).getLength()) for status in there)
        if size > most:
            size = _unread_bytes(spark, path, {plain_url(unquote(url)) for url in files_read()})
        if size > most:
            raise SetupError(
                f"the files in {path} that are not read yet have {size / 1e9:.1f} GB, and the next micro-batch would "
                "read all of them at once, as the stream has no limit: give it one, such as "
                'spark.readStream.option("maxFilesPerTrigger", 10) or .option("maxBytesPerTrigger", "256m")'
            )


def _unread_bytes(spark: SparkSession, path: str, known: set[str]) -> int:
    """Return how many bytes are in files that no batch has read; Spark lists them."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    listed = files.select("path", "length").toArrow()
    pairs = zip(listed.column("path").to_pylist(), listed.column("length").to_pylist(), strict=True)
    return sum(size for name, size in pairs if known.isdisjoint({plain_url(name), plain_url(unquote(name))}))
