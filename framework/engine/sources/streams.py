"""Which sources has a stream, with which options, and are the files of one there?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from panekeeper.state.checkpoint.folder import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILES = "FileSource["
"""With this begins Spark's name of a source that reads plain files; its path and a bracket follow."""


def leaves(df: DataFrame) -> Iterator[Any]:
    """Yield what a stream is made of: its sources, in the order in which Spark numbers them, and tables at rest."""
    found: Any = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 -- a plan has no public reader
    yield from (found.apply(number) for number in range(found.size()))


def kind_of(leaf: Any) -> str:
    """Return the name of the class by which Spark plans a source."""
    return str(leaf.getClass().getSimpleName())


def sources_of(streams: Iterable[DataFrame]) -> list[tuple[DataFrame, Any]]:
    """Return the sources of the streams, each with its stream, by their numbers; tables at rest have none."""
    return [(df, leaf) for df in streams for leaf in leaves(df) if kind_of(leaf).startswith("StreamingRelation")]


def options_of(leaf: Any) -> dict[str, str]:
    """Return the options of a source by their names in lower case."""
    if kind_of(leaf) == "StreamingRelation":
        options = leaf.dataSource().options()
        found = {name: options.apply(name) for name in options.keySet().mkString("\n").splitlines()}
    else:
        found = dict(leaf.extraOptions().asCaseSensitiveMap()) if kind_of(leaf) == "StreamingRelationV2" else {}
    return {name.lower(): value for name, value in found.items()}


def path_of_files(leaf: Any) -> str | None:
    """Return the path of a source that reads plain files, which may have globs; None for another one."""
    name = str(leaf.sourceName()) if kind_of(leaf) == "StreamingRelation" else ""
    return name.removeprefix(_FILES).removesuffix("]") if name.startswith(_FILES) else None


def file_system(spark: SparkSession, path: Any) -> Any:
    """Return Hadoop's file system of a path of Hadoop, with the settings of the session."""
    return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- no public way


def is_there(spark: SparkSession, url: str) -> bool:
    """Return whether a file exists; also if that cannot be found out, as Spark then says why when it reads.

    Args:
        spark: the session that reaches it.
        url: its name as Spark logs it.
    """
    if (local := local_path(unquote(url))) is not None:
        return local.exists()
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    try:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
        return bool(file_system(spark, path).exists(path))
    except Exception:  # noqa: BLE001 -- whatever it is
        return True


def qualified(spark: SparkSession, path: str) -> str:
    """Return a path as Spark logs it; as it is, if its file system cannot be reached: then Spark says why."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(path)
        system = file_system(spark, hadoop)
        return str(hadoop.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())
    except Exception:  # noqa: BLE001 -- whatever it is
        return path
