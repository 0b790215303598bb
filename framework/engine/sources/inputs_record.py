"""Records what the sources of a run read: before the very first batch, once Spark has begun one, and new topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import CheckpointInUse
from panekeeper.framework.engine.sources.topics import TopicIds, require_known, require_same, require_subscribed
from panekeeper.state.checkpoint.folder import INPUTS_FILE, OFFSETS_FOLDER, SOURCES_FOLDER
from panekeeper.state.checkpoint.job_record import Input, is_new, last_batches, read_inputs, write_inputs
from panekeeper.state.log import logger
from panekeeper.state.spark_logs import offset_lines

if TYPE_CHECKING:
    from panekeeper.state.checkpoint.folder import CheckpointFolder

_log = logger("job")


class InputsRecord:
    """The record of one run.

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
            self._record_first() if is_first else write_inputs(self._folder, self._inputs)

    def _record_first(self) -> None:
        try:
            write_inputs(self._folder, self._inputs, replace=False)
        except FileExistsError as error:
            if read_inputs(self._folder) == self._inputs:  # a store says so, too, if the response of a write was lost
                return
            raise CheckpointInUse(
                f"another process has started on {self._folder.root} just now, while this one was paused; start the "
                "job again"
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
        return {number: _topics_of(offsets.get(number)) for number in self._topics}

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
            require_known({*names} - {*known, *found}, ids)
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


def _topics_of(offsets: object) -> list[str]:
    """Return the topics in the offsets of a source; none if it has none yet."""
    return [*offsets] if isinstance(offsets, dict) else []
