"""Do the sources of a job read what those of their numbers have read before?

Spark knows a source by its number, and a file by its whole path. So streams in another order, or files that were moved,
would be read again from the beginning, if the last batch had no row of theirs; else Spark fails. What each number
stands for is recorded in `panekeeper/inputs.json`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import DeclarationError, IncompatibleCheckpoint
from framework.engine.sources.streams import FILES, is_there, kind_of, leaves, options_of
from state.checkpoint.folder import plain_url
from state.checkpoint.run_record import Input, is_new, read_inputs
from state.code_digest import digest
from state.control_log import control_source
from state.spark_logs.source_logs import found_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from framework.engine.session.checkpoint_files import CheckpointFiles

_WHERE = ("subscribe", "subscribepattern", "assign", "path")
"""Options that say what a source reads."""
OPTIONS_OF_NO_ROW = re.compile(
    r"paths?|max\w+pertrigger|minoffsetspertrigger|maxtriggerdelay|maxfileage|latestfirst|cleansource|sourcearchivedir"
    r"|starting\w+|failondataloss|groupidprefix|fs\..*|kafka\.(?!isolation\.level).*|fetchoffset\..*|kafkaconsumer\..*",
    re.IGNORECASE,
)
"""Options of a source that decide where it reads, and which rows the next batch gets, but not what is in a row."""
_GLOB = re.compile(r"[*?\[{]")
_NEWEST = 100
"""So many files are looked for, of those that were read last: they may be millions, and the first ones cleaned up."""


def inputs_of(streams: Iterable[DataFrame]) -> list[Input]:
    """Return what the sources of a job's ports read, by their numbers; that of the control stream comes after them.

    Raises:
        DeclarationError: one stream is used twice. To Spark it is one source then, and has two places in the offsets:
            by these, logs would be taken for those of other sources.
    """
    found = [(df, leaf) for df in streams for leaf in leaves(df) if kind_of(leaf).startswith("StreamingRelation")]
    for number, (df, leaf) in enumerate(found):
        if any(leaf.equals(other) for _, other in found[:number]):
            read = _input(df, leaf)
            raise DeclarationError(
                f"the stream that reads {read.place or read.kind} is used twice in the job, and Spark logs it as one "
                "source: make a stream for each use, by spark.readStream... once more, or use it once"
            )
    return [_input(df, leaf) for df, leaf in found]


def _input(df: DataFrame, leaf: Any) -> Input:
    name, options = str(leaf.sourceName()), options_of(leaf)
    place = next((options[one] for one in _WHERE if one in options), "")
    no_row = [one for one in options if OPTIONS_OF_NO_ROW.fullmatch(one) and one != "kafka.bootstrap.servers"]
    how = {one: value for one, value in options.items() if one not in {*no_row, "filenameonly"}}
    if not name.startswith(FILES):
        return Input(kind=name, place=place, how=digest(how))
    path = _qualified(df.sparkSession, name.removeprefix(FILES).removesuffix("]"))
    by_name = options.get("filenameonly", "").lower() == "true"
    return Input(kind="files", place=path, how=digest([leaf.dataSource().className(), how]), by_name=by_name)


def _qualified(spark: SparkSession, path: str) -> str:
    """Return a path as Spark logs it; as it is, if its file system cannot be reached: then Spark says why."""
    jvm: Any = spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only
    try:
        hadoop = jvm.org.apache.hadoop.fs.Path(path)
        system = hadoop.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001 -- as above
        return str(hadoop.makeQualified(system.getUri(), system.getWorkingDirectory()).toString())
    except Exception:  # noqa: BLE001 -- whatever it is
        return path


def require_same_inputs(files: CheckpointFiles, name: str, now: Sequence[Input]) -> None:
    """Check that each source of a job reads what the source of its number has read until now.

    Args:
        files: the checkpoint.
        name: of the job.
        now: what the sources are to read.

    Raises:
        IncompatibleCheckpoint: they read it in another order, or files in another place.
        CorruptState: the record of it, or a log of files that were read, is damaged.
    """
    if is_new(files):
        return
    before = read_inputs(files)
    control = control_source(files.local_folder() or files)
    if (before is not None and _are_others(before, now)) or control not in (None, len(now)):
        known = "others" if before is None else _names(before)
        raise IncompatibleCheckpoint(
            f"the streams of job {name!r} are others, or in another order than before: {_names(now)} now, and {known} "
            f"in the checkpoint {files.root}. Spark knows them by their place, so rows would be read again. Let the "
            "job read the streams of before, in that order; if the options of several have changed, change those of "
            "one after the other, with a run in between"
        )
    if before is None:
        return
    for number, (old, new) in enumerate(zip(before, now, strict=True)):
        if old.kind == new.kind == "files" and (why := _moved(files, number, old, new)):
            raise IncompatibleCheckpoint(
                f"job {name!r} has read {old.place}, and is to read {new.place} now: {why}, and Spark, which knows "
                f"files by their whole path, would read them again. Put those of {old.place} back, and read them "
                "there; or, if no two files ever have the same name, set the option fileNameOnly of the stream to true "
                "for good, by which Spark knows files by their names alone"
            )


def _are_others(before: Sequence[Input], now: Sequence[Input]) -> bool:
    """Return whether there are more or fewer sources, or one may be what another one was: both have changed then."""
    changed = [pair for pair in zip(before, now, strict=False) if pair[0].identity != pair[1].identity]
    return len(before) != len(now) or any(
        old is not was and old.kind == new.kind and (old.place == new.place or _may_have_files_of(old, new))
        for old, _ in changed
        for was, new in changed
    )


def _may_have_files_of(one: Input, other: Input) -> bool:
    return one.kind == other.kind == "files" and _share_a_folder(one.place, other.place)


def _moved(files: CheckpointFiles, number: int, old: Input, new: Input) -> str | None:
    """Return why a source may find files again, under other names; None: it does not."""
    if new.by_name:
        return None
    if old.by_name:
        return "they were read with the option fileNameOnly, so they may have been moved meanwhile"
    if old.place == new.place:
        return None
    if not _share_a_folder(old.place, new.place):
        return "files may have been moved there"
    newest = deque(found_files(files.local_folder() or files, number), maxlen=_NEWEST)
    gone = next((url for url in newest if not is_there(files.spark, url)), None)
    return None if gone is None else f"files that it has read are elsewhere now, such as {gone}"


def _names(inputs: Iterable[Input]) -> str:
    return ", ".join(one.place or one.kind for one in inputs)


def _share_a_folder(one: str, other: str) -> bool:
    """Return whether one of two paths, which may have globs, lies within the other: a file has one name in both.

    >>> _share_a_folder("file:/in", "file:/in/2024"), _share_a_folder("file:/in/*/a", "file:/in/2024/b")
    (True, True)
    >>> _share_a_folder("file:/in", "file:/in2")
    False
    """
    first, second = (plain_url(f"{_folder(path)}/") for path in (one, other))
    return first.startswith(second) or second.startswith(first)


def _folder(path: str) -> str:
    glob = _GLOB.search(path)
    return path if glob is None else path[: glob.start()].rpartition("/")[0]
