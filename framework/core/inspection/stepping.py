"""A micro-batch of a key group, one step after the other: what each step did, and what is stored after it.

Results are the same wherever micro-batches end, so each step is run as a micro-batch of its own. Only a window that
fires after each micro-batch (`emit="on_update"`) fires more often this way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.inspection.one_key import Values, is_of, rows_of
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, WINDOW, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.row_json import objects
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import (
    ArrivalClock,
    BatchEnd,
    BatchOutcome,
    EventTimeProgress,
    EvictPartitions,
    Flush,
    Mark,
    PartialRows,
    Rows,
    Step,
    Tick,
    Watermark,
)
from panekeeper.framework.declarations.arrow_types import python_rows
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.store import MemoryStore

MOST_SHOWN = 20
"""Rows of one kind that the text of a step names."""


@dataclass(frozen=True, kw_only=True)
class StepDone:
    """One step of a micro-batch, and what it did.

    Attributes:
        number: of the step, from 1 on.
        step: what came.
        outcome: what followed from it, for all partitions of the key group.
        store: what is stored after it.
        key: the partition that is looked at; all if it is empty.
        names: port -> what its partition columns are called there, in the order of `key`.
    """

    number: int
    step: Step
    outcome: BatchOutcome
    store: MemoryStore = field(repr=False)
    key: Values = field(default_factory=dict)
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def results(self) -> list[dict[str, Any]]:
        """The rows of the log that followed, of the partition; of several windows, with the name of theirs."""
        return [
            {WINDOW: window, **row} if window else row
            for window, window_outcome in self.outcome.parts.items()
            for row in (
                [] if window_outcome.results is None else python_rows(rows_of(window_outcome.results, self.key))
            )
        ]

    @property
    def rejected(self) -> list[dict[str, Any]]:
        """The rows of the quarantine that followed, of the partition: by their texts, in which its columns are."""
        rows = [] if self.outcome.rejected is None else python_rows(self.outcome.rejected)
        if not self.key:
            return rows
        own = {name: pa.chunked_array([pa.array([value.as_py()], value.type)]) for name, value in self.key.items()}
        wanted, named = [*json.loads(objects(own)[0]).values()], {tuple(self.key), *self.names.values()}
        return [row for row in rows if _is_text_of(row["row"], wanted, named)]

    def __str__(self) -> str:
        lines = [f"{self.number}. {self._what()}"]
        lines += [f"   {text}" for text in _first(self._rows(), _row_text)]
        lines += [f"   -> {text}" for text in _first(self.results, lambda row: _result_text(row, self.key))]
        lines += [f"   -> {text}" for text in _first(self.rejected, _rejected_text)]
        late = self.outcome.counts.get("refined_late", 0)
        of_group = " (in the key group)" if self.key else ""
        if late:
            lines.append(f"   late rows that refine a pane{of_group}: {late}")
        if repeated := self.outcome.counts.get("repeated", 0):
            lines.append(f"   repeats, which count for nothing{of_group}: {repeated}")
        return "\n".join(lines)

    def _rows(self) -> list[dict[str, Any]]:
        if not isinstance(self.step, Rows):
            return []
        own = self._own(self.step).slice(0, MOST_SHOWN + 1)
        shown = [name for name in own.column_names if not name.startswith("_")]
        times = [name for name in (EVENT_TIME, ARRIVAL_TIME) if name in own.column_names][:1]
        rows = python_rows(own.select(shown))
        for name in times:
            at = map(format_time, own.column(name).to_pylist())
            rows = [{"at": us, **row} for us, row in zip(at, rows, strict=True)]
        return rows

    def _own(self, step: Rows | PartialRows) -> pa.Table:
        names = self.names.get(step.port, tuple(self.key))
        own = dict(zip(names, self.key.values(), strict=False))
        return step.table.filter(is_of(step.table, own))

    def _what(self) -> str:  # noqa: PLR0911 -- one for each kind of step
        step = self.step
        number = 0 if isinstance(step, EventTimeProgress) else step.port
        port = f" of port {number}" if number else ""
        match step:
            case Watermark(us):
                return f"watermark{port} {format_time(us)}"
            case Rows(table) | PartialRows(table):
                own, of = self._own(step).num_rows, f" of {table.num_rows} in the key group" if self.key else ""
                window = getattr(step, "window", "")
                what = "rows" if isinstance(step, Rows) else "partial results of folded rows"
                return f"{what}{port}{window and f' for {window}'}: {own}{of}{_span(table)}"
            case EventTimeProgress(reached):
                ends = ", ".join(
                    f"port {number}{f' {part}' if part else ''} {format_time(us)}" for (number, part), us in reached
                )
                return f"event time has come to, less the delay: {ends}"
            case Tick(us, resume):
                return f"{'start' if resume else 'clock'}{port} {format_time(us)}"
            case ArrivalClock(us):
                return f"clock of the stream{port} {format_time(us)}"
            case Mark(kind, us):
                return f"{kind} mark{port}{'' if us is None else f' at {format_time(us)}'}"
            case EvictPartitions(keys):
                return f"partitions to evict{port}: {keys.num_rows}"
            case Flush():
                return f"flush{port}"
            case BatchEnd():
                return "end of the batch, with its state handlers"


def each_step(
    spec: JobSpec,
    store: MemoryStore,
    steps: Sequence[Step],
    *,
    key: Values | None = None,
    checkpoint: BatchCheckpoint | None = None,
) -> Iterator[StepDone]:
    """Yield what each step does, one after the other, from a copy of the store on; `key` is what is looked at.

    State handlers act once a batch, so where there are such, as `checkpoint` says, all follows from its end.
    """
    own = store.copy()
    names = {port.port: tuple(port.keys.names) for port in spec.ports}
    for number, step in enumerate(steps if checkpoint is None else (*steps, BatchEnd()), 1):
        if checkpoint is None:
            outcome = KeyGroupRunner(spec, own).run([step])
        elif isinstance(step, BatchEnd):
            outcome = KeyGroupRunner(spec, own, checkpoint).run(steps)
        else:
            outcome = BatchOutcome(results=None, rejected=None, counts={})
        yield StepDone(number=number, step=step, outcome=outcome, store=own.copy(), key=key or {}, names=names)


def _is_text_of(text: str, wanted: Sequence[Any], named: Iterable[Sequence[str]]) -> bool:
    """Return whether a row of the quarantine has these values, by whichever of `named` its columns are called."""
    row = json.loads(text)
    return any([row.get(name) for name in names] == wanted for names in named)


def _first(rows: list[dict[str, Any]], text: Callable[[Mapping[str, Any]], str]) -> Iterator[str]:
    """Yield the first rows as texts, and whether there are others."""
    yield from map(text, rows[:MOST_SHOWN])
    if len(rows) > MOST_SHOWN:
        yield "and more"


def _row_text(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={_text(value)}" for name, value in row.items())


def _result_text(row: Mapping[str, Any], key: Values) -> str:
    return f"fires: {_row_text({name: value for name, value in row.items() if name not in key})}"


def _rejected_text(row: Mapping[str, Any]) -> str:
    detail = f" ({row['detail']})" if row.get("detail") else ""
    return f"quarantine {row['reason']}{detail}: {row['row']}"


def _text(value: Any) -> str:
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)


def _span(table: pa.Table) -> str:
    name = next((column for column in (EVENT_TIME, ARRIVAL_TIME) if column in table.column_names), None)
    if name is None or not table.num_rows:
        return ""
    times = table.column(name).to_numpy()
    what = "event time" if name == EVENT_TIME else "arrival"
    return f", {what} {format_time(int(times.min()))} to {format_time(int(times.max()))}"
