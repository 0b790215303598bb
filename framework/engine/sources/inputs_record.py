"""Records what the sources of a run read: before the very first batch, once Spark has begun one, and new topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from framework.engine.sources.topics import TopicIds, with_ids
from state.checkpoint.layout import SOURCES_FOLDER
from state.checkpoint.run_record import Input, is_new, read_inputs, write_inputs
from state.spark_logs.offsets import offset_lines

if TYPE_CHECKING:
    from state.spark_logs.lines import LogFolder


class InputsRecord:
    """The record of one run.

    Args:
        folder: the job's checkpoint.
        inputs: what its sources read, by their numbers.
        topics: number of a source that reads from Kafka -> what reads the ids of its topics.
    """

    def __init__(self, folder: LogFolder, inputs: Sequence[Input], topics: Mapping[int, TopicIds]) -> None:
        self._folder = folder
        self._inputs = [*inputs]
        self._topics = topics
        self._is_recorded = False

    def before_query(self) -> None:
        """Record them in a new checkpoint: a kill may come as soon as Spark has begun a batch.

        A start that failed before may have left where topics began then; the options of this one say where they begin.
        """
        if not self._is_recorded and is_new(self._folder):
            for number, ids in self._topics.items():
                if ids.has_start:
                    self._folder.remove(f"{SOURCES_FOLDER}/{number}/0")
            write_inputs(self._folder, self._inputs)

    def in_batch(self) -> None:
        """Record them in the first batch: Spark has taken them, as it plans no batch of others."""
        if self._is_recorded:
            return
        before = read_inputs(self._folder) or []
        for number, (old, new) in enumerate(zip(before, self._inputs, strict=False)):
            if old.kind == new.kind:
                self._inputs[number] = replace(new, topics=old.topics)
        write_inputs(self._folder, self._inputs)
        self._is_recorded = True

    def after_reading(self, batch: int) -> None:
        """Look whether the topics that a batch has read are those of before, and record new ones.

        Called when all rows of the batch were read, and nothing of it is recorded: by then a topic has either the id of
        before, or was created again.

        Raises:
            JobFailed: a topic was deleted and created again.
        """
        inputs = list(self._inputs)
        for number, ids in self._topics.items():
            offsets = offset_lines(self._folder, batch)[1 + number]
            topics = [*offsets] if isinstance(offsets, dict) else []
            known = inputs[number].topics
            found = ids.of(topics) if topics else {}
            inputs[number] = replace(inputs[number], topics=with_ids(known, found, topics, may_skip=ids.may_skip))
        if inputs != self._inputs:
            self._inputs = inputs
            write_inputs(self._folder, inputs)

    def close(self) -> None:
        """Close what the run has opened."""
        for ids in self._topics.values():
            ids.close()
