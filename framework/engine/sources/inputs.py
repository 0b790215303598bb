"""Do the sources of a job read what those of their numbers have read before?

Spark knows a source by its number, and a file by its whole path. So streams in another order, or files that were moved,
would be read again from the beginning, if the last batch had no row of theirs; else Spark fails. What each number
stands for is recorded in `panekeeper/inputs.json`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointInUse, DeclarationError, IncompatibleCheckpoint
from panekeeper.framework.engine.sources.streams import options_of, path_of_files, qualified, sources_of
from panekeeper.state.checkpoint.control_files import control_source
from panekeeper.state.checkpoint.folder import INPUTS_FILE, plain_url
from panekeeper.state.checkpoint.job_record import Input, is_new, last_batches, read_inputs, write_inputs
from panekeeper.state.spark_logs import offset_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.state.checkpoint.folder import CheckpointFolder

_WHERE = ("subscribe", "subscribepattern", "assign", "path")
"""Options that say what a source reads."""
_OF_NO_ROW = re.compile(
    r"paths?|max\w+pertrigger|minoffsetspertrigger|maxtriggerdelay|maxfileage|latestfirst|cleansource|sourcearchivedir"
    r"|starting\w+|failondataloss|groupidprefix|fs\..*|kafka\.(?!isolation\.level).*|fetchoffset\..*|kafkaconsumer\..*",
    re.IGNORECASE,
)
"""Options of a source that decide where it reads, and which rows the next batch gets, but not what is in a row."""
_GLOB = re.compile(r"[*?\[{]")
_OTHER_GLOB = re.compile(r"[?\[\]{}\\]")


def inputs_of(streams: Iterable[DataFrame]) -> list[Input]:
    """Return what the sources of a job's ports read, by their numbers; that of the control stream comes after them.

    Raises:
        DeclarationError: one stream is used twice: to Spark it is one source then, with two places in the offsets.
            Two have the same place and options. Or one begins at the latest version of a table.
    """
    sources = sources_of(streams)
    inputs = [_input(df, leaf) for df, leaf in sources]
    for number, ((_, leaf), read) in enumerate(zip(sources, inputs, strict=True)):
        if any(leaf.equals(other) for _, other in sources[:number]):
            raise DeclarationError(
                f"the stream that reads {read.place or read.kind} is used twice in the job, and Spark logs it as one "
                "source: make a stream for each use, by spark.readStream... once more, each with an option of its own "
                'by which it is known, such as .option("stream", "orders"); or use it once'
            )
        if read.identity in [earlier.identity for earlier in inputs[:number]]:
            raise DeclarationError(
                f"two streams of the job read {read.place or read.kind} with the same options, and if they changed "
                "places, rows would be lost or read twice, without an error: give one of them an option of its own by "
                'which it is known, such as .option("stream", "orders")'
            )
        if options_of(leaf).get("startingversion", "").lower() == "latest":
            table = f"delta.`{read.place}`" if read.place else "NAME"
            raise DeclarationError(
                f"the stream that reads {read.place or read.kind} has the option startingVersion = latest, and Delta "
                "looks for the latest version anew at each start, until a batch with rows is committed: rows that come "
                "while the job is down, or in a batch that is interrupted, would never be read. Give the number of a "
                "version. For all that comes from now on, let a commit without rows make one: "
                f"COMMENT ON TABLE {table} IS 'read from here'; DESCRIBE HISTORY has its number"
            )
    return inputs


def _input(df: DataFrame, leaf: Any) -> Input:
    options, path = options_of(leaf), path_of_files(leaf)
    place = next((options[option] for option in _WHERE if option in options), "")
    no_row = [option for option in options if _OF_NO_ROW.fullmatch(option) and option != "kafka.bootstrap.servers"]
    how = {option: value for option, value in options.items() if option not in {*no_row, "filenameonly"}}
    if path is None:
        return Input(kind=str(leaf.sourceName()), place=place, how=_digest(how))
    by_name = options.get("filenameonly", "").lower() == "true"
    read_by = _digest([leaf.dataSource().className(), how])
    return Input(kind="files", place=qualified(df.sparkSession, path), how=read_by, by_name=by_name)


def require_same_inputs(files: CheckpointFiles, name: str, now: Sequence[Input]) -> None:
    """Check that each source of a job reads what the source of its number has read until now, in the same place."""
    if is_new(files):
        return
    before = read_inputs(files)
    control = control_source(files)
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
    for old, new in zip(before, now, strict=True):
        if old.kind == new.kind == "files" and (why := _moved(old, new)):
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
        old is not was
        and old.kind == new.kind
        and (old.place == new.place or (old.kind == "files" and _share_a_folder(old.place, new.place)))
        for old, _ in changed
        for was, new in changed
    )


def _moved(old: Input, new: Input) -> str | None:
    """Return why a source may find files again, under other names; None: it does not."""
    if new.by_name:
        return None
    if old.by_name:
        return "they were read with the option fileNameOnly, so they may have been moved meanwhile"
    is_same = _covers(old.place, new.place) or _covers(new.place, old.place)
    return None if is_same else "files may have been moved there"


def _names(inputs: Iterable[Input]) -> str:
    return ", ".join(source.place or source.kind for source in inputs)


def _share_a_folder(place: str, other: str) -> bool:
    """Return whether one of two paths, which may have globs, lies within the other: a file has one name in both.

    >>> _share_a_folder("file:/in", "file:/in/2024"), _share_a_folder("file:/in/*/a", "file:/in/2024/b")
    (True, True)
    >>> _share_a_folder("file:/in", "file:/in2")
    False
    """
    first, second = (
        plain_url(f"{path[: glob.start()].rpartition('/')[0] if (glob := _GLOB.search(path)) else path}/")
        for path in (place, other)
    )
    return first.startswith(second) or second.startswith(first)


def _covers(above: str, path: str) -> bool:
    """Return whether all files of a path are below another one, as far as their text shows it; both may have globs.

    >>> _covers("file:/in", "file:/in/2024"), _covers("file:/in/*", "file:/in/2024-*/a"), _covers("/in/2024", "/in")
    (True, True, False)
    >>> _covers("file:/in/v1-*", "file:/in/v2-*"), _covers("file:/in/v?", "file:/in/v2")
    (False, False)
    """
    wide, narrow = (plain_url(pattern).rstrip("/").split("/") for pattern in (above, path))
    return len(wide) <= len(narrow) and all(
        segment == other or ("*" in segment and not _OTHER_GLOB.search(segment) and fnmatchcase(other, segment))
        for segment, other in zip(wide, narrow, strict=False)
    )


def _digest(value: Any) -> str:
    """Return a short text for options, which may be passwords: a text, or a list or dict of such. Stored.

    >>> _digest({"a": "1", "b": "2"}) == _digest({"b": "2", "a": "1"}), _digest(["a"]) == _digest(["b"])
    (True, False)
    """
    return f"code:{_form(value)}"


def _form(value: Any) -> str:
    if isinstance(value, dict):
        text = f"dict({', '.join(sorted(', '.join(map(_form, item)) for item in value.items()))})"
    elif isinstance(value, list):
        text = f"list({', '.join(map(_form, value))})"
    else:
        text = f"{type(value).__name__} {value!r}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def require_topics_named(files: CheckpointFiles, streams: Iterable[DataFrame]) -> None:
    """Refuse a source of Kafka whose options name a topic no more that the last batch has read.

    Spark would log the offsets of one more batch before it refuses that, and then refuse each start. Messages that may
    be skipped (`failOnDataLoss`) are none of that.
    """
    begun, committed = last_batches(files)
    last = begun if committed is None else committed
    of_kafka = {
        number: (df, options_of(leaf))
        for number, (df, leaf) in enumerate(sources_of(streams))
        if str(leaf.sourceName()) == "kafka"
    }
    if last is None or not of_kafka:
        return
    offsets = dict(enumerate(offset_lines(files, last)[1:]))
    for number, (df, options) in of_kafka.items():
        jvm: Any = df.sparkSession._jvm  # noqa: SLF001 -- a pattern of topics is one of Java's
        read = offsets.get(number)
        left = topics_left_out(options, read if isinstance(read, dict) else {}, jvm.java.util.regex.Pattern.matches)
        if left and options.get("failondataloss", "true").lower() != "false":
            raise IncompatibleCheckpoint(
                f"topics {', '.join(left)} were read until now, and the options of the source name them no more. Name "
                "them again; or, if nothing more of them is wanted, start once with the option failOnDataLoss=false. "
                "One that is named again after that is read from its beginning"
            )


def topics_left_out(
    options: Mapping[str, str], topics: Iterable[str], matches: Callable[[str, str], bool]
) -> list[str]:
    """Return those of some topics that the options of a source do not name; `matches` compares pattern and topic."""
    if (pattern := options.get("subscribepattern")) is not None:
        return sorted(topic for topic in topics if not matches(pattern, topic))
    chosen = options.get("assign")
    named = [*json.loads(chosen)] if chosen is not None else map(str.strip, options.get("subscribe", "").split(","))
    return sorted({*topics} - {*named})


class InputsRecord:
    """Records what the sources of one run read: before its very first batch, and once Spark has begun one of it."""

    def __init__(self, folder: CheckpointFolder, inputs: Sequence[Input]) -> None:
        self._folder, self._inputs = folder, inputs
        self._is_recorded = False

    def before_query(self) -> None:
        """Record them in a new checkpoint: a kill may come as soon as Spark has begun a batch.

        Raises `CheckpointInUse` if this was paused, and another process has begun with other inputs.
        """
        if self._is_recorded or not is_new(self._folder):
            return
        try:
            write_inputs(self._folder, self._inputs, replace=self._folder.exists(INPUTS_FILE))
        except FileExistsError as error:
            if read_inputs(self._folder) != self._inputs:  # else a store has repeated a write whose response was lost
                raise CheckpointInUse(
                    f"another process has started on {self._folder.root} just now, while this one was paused; "
                    "start the job again"
                ) from error

    def before_reading(self) -> None:
        """Record them in the first batch of the run: Spark has taken them, as it plans no batch of others."""
        if not self._is_recorded:
            write_inputs(self._folder, self._inputs)
            self._is_recorded = True
