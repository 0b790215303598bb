"""Do the sources of a job read what those of their numbers have read before?

Spark knows a source by its number, and a file by its whole path. So streams in another order, or files that were moved,
would be read again from the beginning, if the last batch had no row of theirs; else Spark fails. What each number
stands for is recorded in `panekeeper/inputs.json`.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import CheckpointInUse, DeclarationError, IncompatibleCheckpoint
from panekeeper.framework.engine.sources.streams import is_there, options_of, path_of_files, qualified, sources_of
from panekeeper.framework.engine.sources.topics import TopicIds, require_response, require_same, require_subscribed
from panekeeper.state.checkpoint.control_files import control_source
from panekeeper.state.checkpoint.folder import INPUTS_FILE, OFFSETS_FOLDER, SOURCES_FOLDER, plain_url
from panekeeper.state.checkpoint.job_record import Input, is_new, last_batches, read_inputs, write_inputs
from panekeeper.state.log import logger
from panekeeper.state.spark_logs import found_files, offset_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
    from panekeeper.state.checkpoint.folder import CheckpointFolder

_log = logger("job")
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
_NEWEST = 100
"""So many files are looked for, of those that were read last: they may be millions, and the first ones cleaned up."""


def inputs_of(streams: Iterable[DataFrame]) -> list[Input]:
    """Return what the sources of a job's ports read, by their numbers; that of the control stream comes after them.

    Raises:
        DeclarationError: one stream is used twice: to Spark it is one source then, with two places in the offsets.
            Two have the same place and options. Or one begins at the latest version of a table.
    """
    found = sources_of(streams)
    inputs = [_input(df, leaf) for df, leaf in found]
    for number, ((_, leaf), read) in enumerate(zip(found, inputs, strict=True)):
        if any(leaf.equals(other) for _, other in found[:number]):
            raise DeclarationError(
                f"the stream that reads {read.place or read.kind} is used twice in the job, and Spark logs it as one "
                "source: make a stream for each use, by spark.readStream... once more, each with an option of its own "
                'by which it is known, such as .option("stream", "orders"); or use it once'
            )
        if read.identity in [one.identity for one in inputs[:number]]:
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
    place = next((options[one] for one in _WHERE if one in options), "")
    no_row = [one for one in options if _OF_NO_ROW.fullmatch(one) and one != "kafka.bootstrap.servers"]
    how = {one: value for one, value in options.items() if one not in {*no_row, "filenameonly"}}
    if path is None:
        return Input(kind=str(leaf.sourceName()), place=place, how=_digest(how))
    by_name = options.get("filenameonly", "").lower() == "true"
    read_by = _digest([leaf.dataSource().className(), how])
    return Input(kind="files", place=qualified(df.sparkSession, path), how=read_by, by_name=by_name)


def require_same_inputs(files: CheckpointFiles, name: str, now: Sequence[Input]) -> None:
    """Check that each source of a job reads what the source of its number has read until now.

    Raises:
        IncompatibleCheckpoint: they read it in another order, or files in another place.
    """
    if is_new(files):
        return
    before = read_inputs(files)
    control = control_source(files.without_java())
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
        old is not was
        and old.kind == new.kind
        and (old.place == new.place or (old.kind == "files" and _share_a_folder(old.place, new.place)))
        for old, _ in changed
        for was, new in changed
    )


def _moved(files: CheckpointFiles, number: int, old: Input, new: Input) -> str | None:
    """Return why a source may find files again, under other names; None: it does not."""
    if new.by_name:
        return None
    if old.by_name:
        return "they were read with the option fileNameOnly, so they may have been moved meanwhile"
    if old.place == new.place:
        return None
    if not (_covers(old.place, new.place) or _covers(new.place, old.place)):
        return "files may have been moved there"
    newest = deque(found_files(files.without_java(), number), maxlen=_NEWEST)
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
    first, second = (
        plain_url(f"{path[: glob.start()].rpartition('/')[0] if (glob := _GLOB.search(path)) else path}/")
        for path in (one, other)
    )
    return first.startswith(second) or second.startswith(first)


def _covers(above: str, path: str) -> bool:
    """Return whether all files of a path are below another one, as far as their text shows it; both may have globs.

    >>> _covers("file:/in", "file:/in/2024"), _covers("file:/in/*", "file:/in/2024-*/a"), _covers("/in/2024", "/in")
    (True, True, False)
    >>> _covers("file:/in/v1-*", "file:/in/v2-*"), _covers("file:/in/v?", "file:/in/v2")
    (False, False)
    """
    wide, narrow = (plain_url(one).rstrip("/").split("/") for one in (above, path))
    return len(wide) <= len(narrow) and all(
        one == other or ("*" in one and not _OTHER_GLOB.search(one) and fnmatchcase(other, one))
        for one, other in zip(wide, narrow, strict=False)
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


class InputsRecord:
    """Records what the sources of one run read: before its first batch, once Spark has begun one, and new topics.

    Args:
        folder: the job's checkpoint.
        inputs: what its sources read, by their numbers.
        topics: number of a source that reads from Kafka -> what reads the ids of its topics.
        require_lease: raises if the lease is lost; called before new topics are recorded, as Kafka may be slow.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        inputs: Sequence[Input],
        topics: Mapping[int, TopicIds],
        require_lease: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._require_lease = require_lease
        self._inputs = [*inputs]
        self._topics = topics
        self._is_recorded = False
        self._read: Mapping[int, Sequence[str]] = {}

    def before_query(self) -> None:
        """Look whether what is read is what was read, while Spark has begun no batch of it.

        In a new checkpoint it is recorded: a kill may come as soon as Spark has begun a batch. A start that failed
        before may have left where topics began then; the options of this one say where they begin.

        Raises:
            JobFailed: a topic was deleted and created again, is gone, or is not read any more.
            CheckpointInUse: this was paused, and another process has begun with other inputs.
        """
        if not is_new(self._folder):
            self._take_recorded()
            self._require_topics_of_last_batch()
        elif not self._is_recorded:
            is_first = not self._folder.exists(INPUTS_FILE)
            self._take_recorded()
            for number, ids in self._topics.items():
                found = ids.of(ids.named())
                if ids.has_start:
                    self._folder.remove(f"{SOURCES_FOLDER}/{number}/0")
                else:  # the topics begin where the first start has found their ends
                    known = {name: one for name, one in self._inputs[number].topics.items() if ids.reads(name)}
                    require_same(known, found, ids, self._folder.root)
                self._inputs[number] = replace(self._inputs[number], topics=found)
            try:
                write_inputs(self._folder, self._inputs, replace=not is_first)
            except FileExistsError as error:
                # A store says so, too, if the response of a write was lost.
                if read_inputs(self._folder) != self._inputs:
                    raise CheckpointInUse(
                        f"another process has started on {self._folder.root} just now, while this one was paused; "
                        "start the job again"
                    ) from error

    def before_reading(self, batch: int) -> None:
        """Record them in the first batch: Spark has taken them, as it plans no batch of others. And topics in theirs.

        Args:
            batch: its offsets are logged, and nothing of it is read.
        """
        if not self._is_recorded:
            self._take_recorded()
            write_inputs(self._folder, self._inputs)
            self._is_recorded = True
        if self._topics:
            self._read = self._topics_in(batch)
            self._require_same_topics(
                {number: [*{*read}.difference(self._inputs[number].topics)] for number, read in self._read.items()}
            )

    def _take_recorded(self) -> None:
        """Take over which topics the sources have read until now."""
        if self._is_recorded:
            return
        for number, (old, new) in enumerate(zip(read_inputs(self._folder) or [], self._inputs, strict=False)):
            if old.kind == new.kind:
                self._inputs[number] = replace(new, topics=old.topics)

    def _topics_in(self, batch: int) -> dict[int, list[str]]:
        """Return the topics in the offsets of a batch; none of a source that is new since then, which Spark refuses."""
        offsets = dict(enumerate(offset_lines(self._folder, batch)[1:]))
        found = {number: offsets.get(number) for number in self._topics}  # of one without any yet: no dict
        return {number: [*read] if isinstance(read, dict) else [] for number, read in found.items()}

    def _require_topics_of_last_batch(self) -> None:
        """Refuse topics that are others than those of the last batch, and let Spark plan a batch again that lacks some.

        Spark logs the offsets of a batch, and finds out then that a topic of before is not in them.
        """
        begun, committed = last_batches(self._folder)
        last = begun if committed is None else committed
        if last is None or begun is None or not self._topics:
            return
        is_begun_without = False
        for number, read in self._topics_in(last).items():
            ids, known = self._topics[number], self._inputs[number].topics
            require_subscribed(read, ids)
            names = [*filter(ids.reads, read)]
            found = ids.of(names) if names else {}
            require_same({name: known[name] for name in names if name in known}, found, ids, self._folder.root)
            is_begun_without |= not found.keys() <= {*self._topics_in(begun)[number]}
        if is_begun_without:
            self._require_lease()
            _log.warning("batch %s was begun without a topic of before, and is planned again", begun)
            self._folder.remove(f"{OFFSETS_FOLDER}/{begun}")

    def after_reading(self) -> None:
        """Look whether the topics that a batch has read are those of before.

        Called when all rows of the batch were read, and nothing of it is recorded: by then a topic has either the id of
        before, or was created again.

        Raises:
            JobFailed: a topic was deleted and created again.
        """
        self._require_same_topics(self._read)

    def _require_same_topics(self, topics: Mapping[int, Sequence[str]]) -> None:
        inputs = list(self._inputs)
        for number, names in topics.items():
            ids, before = self._topics[number], inputs[number].topics
            known = {name: before[name] for name in names if name in before}
            found = ids.of(names) if names else {}
            require_same(known, found, ids, self._folder.root)
            new = {*names} - {*known, *found}  # read for the first time, and without an id
            if new and not ids.gives_none and not ids.may_skip:
                require_response(new, ids)
            now = {name: one for name in self._read[number] if (one := found.get(name) or before.get(name))}
            inputs[number] = replace(inputs[number], topics=now)
        if inputs != self._inputs:
            self._require_lease()
            self._inputs = inputs
            write_inputs(self._folder, inputs)

    def close(self) -> None:
        """Close what the run has opened."""
        for ids in self._topics.values():
            ids.close()
