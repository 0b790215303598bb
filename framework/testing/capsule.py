"""A capsule: what one partition had before a batch, what came, and what should come out, in one JSON file.

It is made by `panekeeper capsule` from a real job (`diagnostics/replay/capsule.py`), and runs anywhere, without Spark
and without the source: it is a test case.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from panekeeper.framework.core import steps as core_steps
from panekeeper.framework.core.inspection.differences import rows_difference, state_difference
from panekeeper.framework.core.inspection.one_key import Values
from panekeeper.framework.core.inspection.stepping import StepDone, each_step
from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import Step
from panekeeper.framework.declarations.display import Result
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.operator import OperatorWithListeners
from panekeeper.framework.testing.declared_json import from_json, to_json
from panekeeper.framework.testing.results import Results
from panekeeper.state.codec import STATE_VERSION
from panekeeper.state.store import MemoryStore

CAPSULE_VERSION = 1
"""Raised by one whenever the file changes meaning."""

_AS_INT = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@dataclass(frozen=True, kw_only=True)
class Capsule(Result):
    """A case: how a batch began, what came in it, and what should come out.

    Attributes:
        job: name of the job that it is from.
        batch: number of the batch.
        key: partition column -> value, as it is in the capsule.
        spec: the windows, and what they compute.
        store: what is stored before.
        steps: what comes, in order.
        checkpoint: which checkpoint the batch is for state handlers; None without such.
        results: the rows of the log that should come out, by the name of their window; it is empty for the only one.
        rejected: the rows of the quarantine that should.
        after: what should be stored then; None: that is not compared.
        has_others: whether other partitions of the key group are in it, as the case needs them.
        masked: the columns whose values are hashes.
    """

    job: str
    batch: int
    key: Values
    spec: JobSpec
    store: MemoryStore
    steps: Sequence[Step]
    results: Mapping[str, pa.Table]
    rejected: pa.Table
    after: MemoryStore | None
    checkpoint: BatchCheckpoint | None = None
    has_others: bool = False
    masked: tuple[str, ...] = ()

    def run(self) -> CapsuleRun:
        """Run it, and compare what comes out with what should."""
        now, results = self.with_outcome(), Results(self.spec.windows)
        said: dict[str, str | None] = {}
        for window, rows in now.results.items():
            results.add(rows, self.batch, window)
            said[f"results{window and f' of {window}'}"] = rows_difference(self.results.get(window), rows)
        said["quarantine"] = rows_difference(self.rejected, now.rejected)
        assert now.after is not None  # it was run
        said["state"] = None if self.after is None else state_difference(self.after, now.after)
        differences = tuple(f"{name}: {what}" for name, what in said.items() if what)
        return CapsuleRun(capsule=self, results=results, differences=differences)

    def with_outcome(self) -> Capsule:
        """Return the case with what comes out now as what should come out."""
        after = self.store.copy()
        outcome, parts = KeyGroupRunner(self.spec, after, self.checkpoint).run(self.steps), self.spec.parts
        results = {name: _or_none(part.results, parts[name].results_schema) for name, part in outcome.parts.items()}
        rejected = _or_none(outcome.rejected, self.spec.rejected_schema)
        return replace(self, results=results, rejected=rejected, after=after)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON-able fields. Raises `DeclarationError` for code that cannot be imported elsewhere."""
        needs: set[str] = set()
        spec = to_json(self.spec, needs)
        key = pa.table({name: pa.array([value.as_py()], value.type) for name, value in self.key.items()})
        return {
            "capsule": CAPSULE_VERSION,
            "state_version": STATE_VERSION,
            "job": self.job,
            "batch": self.batch,
            "needs": sorted(needs),
            "masked": [*self.masked],
            "has_other_partitions": self.has_others,
            "key": _table_json(key),
            "declaration": spec,
            "checkpoint": to_json(self.checkpoint, needs),
            "state": _store_json(self.store),
            "steps": [_step_json(step) for step in self.steps],
            "expected": {
                "results": {name: _table_json(table) for name, table in self.results.items()},
                "quarantine": _table_json(self.rejected),
                "state": None if self.after is None else _store_json(self.after),
            },
        }

    def fields(self) -> dict[str, Any]:
        """Return the same: it is printed as the file that it is."""
        return self.to_json()

    def _described(self) -> Iterator[str]:
        yield json.dumps(self.to_json(), indent=1)

    @staticmethod
    def from_json(stored: Any) -> Capsule:
        """Return the case that `to_json` wrote. Raises `DeclarationError` for what is none, or of another version."""
        if not isinstance(stored, dict) or "capsule" not in stored:
            raise DeclarationError("this is no capsule; the command capsule of panekeeper prints one")
        versions = stored["capsule"], stored.get("state_version")
        if versions != (CAPSULE_VERSION, STATE_VERSION):
            raise DeclarationError(
                f"the capsule has version {versions[0]}, and state of version {versions[1]}; this Panekeeper runs "
                f"version {CAPSULE_VERSION} with state of version {STATE_VERSION}: run it with the one that wrote it"
            )
        try:
            spec = _joined(from_json(stored["declaration"]))
            key, expected = _table_of(stored["key"]), stored["expected"]
            return Capsule(
                job=stored["job"],
                batch=stored["batch"],
                key={name: key.column(name)[0] for name in key.column_names},
                spec=spec,
                checkpoint=from_json(stored["checkpoint"]),
                store=_store_of(stored["state"]),
                steps=[_step_of(stored_step) for stored_step in stored["steps"]],
                results={name: _table_of(stored_table) for name, stored_table in expected["results"].items()},
                rejected=_table_of(expected["quarantine"]),
                after=None if expected["state"] is None else _store_of(expected["state"]),
                has_others=stored["has_other_partitions"],
                masked=tuple(stored["masked"]),
            )
        except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
            raise DeclarationError(f"the capsule is damaged ({error!r}); make it again") from error


def _joined(spec: JobSpec) -> JobSpec:
    """Return a spec whose operator and listeners, where they are state handlers, too, are one object as that again."""
    operator: Any = spec.operator
    own = (operator.operator, *operator.listeners) if isinstance(operator, OperatorWithListeners) else (operator,)
    by_kind: dict[type, Any] = {type(user_object): user_object for user_object in own}
    return replace(spec, handlers=tuple(by_kind.get(type(handler), handler) for handler in spec.handlers))


@dataclass(frozen=True, kw_only=True)
class CapsuleRun:
    """What came out of a capsule.

    Attributes:
        capsule: the case.
        results: the rows of the log that came out, a dict each; `results.windows` has those of each of several windows.
        differences: what is not as it should be; empty if all is.
    """

    capsule: Capsule = field(repr=False)
    results: Results
    differences: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether what came out is what should."""
        return not self.differences

    def steps(self) -> Iterator[StepDone]:
        """Yield the steps of the batch, one after the other; each is run when it is asked for, and has a text."""
        case = self.capsule
        return each_step(case.spec, case.store, case.steps, key=case.key, checkpoint=case.checkpoint)

    def __str__(self) -> str:
        key = "".join(f" {name}={value}" for name, value in self.capsule.key.items())
        lines = [f"batch {self.capsule.batch} of job {self.capsule.job}{key}: {len(self.results)} firings"]
        lines += [str(step) for step in self.steps()]
        return "\n".join(
            [*lines, "equal" if self.is_equal else "differs", *(f"  {difference}" for difference in self.differences)]
        )


def run_capsule(case: str | os.PathLike[str] | Mapping[str, Any]) -> CapsuleRun:
    """Run a capsule, without Spark and without the source, and compare what comes out with what should.

    A capsule imports the code that it needs, by the names in its field `needs`: run those that you trust.

    Args:
        case: the file, or what is in it.

    Raises:
        DeclarationError: it is no capsule, one of another version, or code that it needs cannot be imported.

    Examples:
        >>> def test_case():
        ...     assert run_capsule("case.json").is_equal
    """
    if isinstance(case, Mapping):
        return Capsule.from_json(dict(case)).run()
    try:
        stored = json.loads(Path(case).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DeclarationError(f"{os.fspath(case)} is no capsule: it is no JSON ({error})") from error
    return Capsule.from_json(stored).run()


def _or_none(table: pa.Table | None, schema: pa.Schema) -> pa.Table:
    return schema.empty_table() if table is None else table


# Tables, stores and steps


def _store_json(store: MemoryStore) -> dict[str, Any]:
    header = None if store.header is None else base64.b64encode(store.header).decode()
    entries = [[*place, base64.b64encode(value).decode()] for place, value in sorted(store.entries.items())]
    return {"header": header, "entries": entries}


def _store_of(stored: Mapping[str, Any]) -> MemoryStore:
    header = None if stored["header"] is None else base64.b64decode(stored["header"])
    entries = {(kind, slot, seq): base64.b64decode(value) for kind, slot, seq, value in stored["entries"]}
    return MemoryStore(header, entries)


def _step_json(step: Step) -> dict[str, Any]:
    needs: set[str] = set()
    plain = {name: value for name, value in vars(step).items() if not isinstance(value, pa.Table)}
    tables = {name: _table_json(value) for name, value in vars(step).items() if isinstance(value, pa.Table)}
    return {"step": type(step).__name__, **{name: to_json(value, needs) for name, value in plain.items()}, **tables}


def _step_of(stored: Mapping[str, Any]) -> Step:
    kinds = {kind.__name__: kind for kind in (*core_steps.PortStep.__args__, core_steps.EventTimeProgress)}
    given = {name: value for name, value in stored.items() if name != "step"}
    tables = {name: _table_of(value) for name, value in given.items() if isinstance(value, dict) and "columns" in value}
    plain = {name: from_json(value) for name, value in given.items() if name not in tables}
    step: Step = kinds[stored["step"]](**plain, **tables)
    return step


def _table_json(table: pa.Table) -> dict[str, Any]:
    columns = [_column_json(table.column(place)) for place in range(table.num_columns)]
    return {**to_json(table.schema, set()), "rows": table.num_rows, "columns": columns}


def _table_of(stored: Mapping[str, Any]) -> pa.Table:
    schema = from_json({"schema": stored["schema"]})
    if not len(schema):
        return pa.table({"": pa.nulls(stored["rows"])}).select([])
    columns = [
        _column_of(stored_column, field.type) for stored_column, field in zip(stored["columns"], schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _as_plain(kind: pa.DataType) -> pa.DataType | None:
    """Return the type by which values of a type are written, a whole number or itself; None for one that has none."""
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _AS_INT[kind.bit_width]
    is_plain = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind)
    return kind if is_plain else None


def _column_json(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if (plain := _as_plain(kind)) is not None:
        return column.cast(plain).to_pylist()
    if pa.types.is_float64(kind):
        return [to_json(number, set()) for number in column.to_pylist()]
    sink = pa.BufferOutputStream()
    table = pa.table({"": column})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {"arrow": base64.b64encode(sink.getvalue().to_pybytes()).decode()}


def _column_of(stored: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(stored, dict):
        table = pa.ipc.open_stream(pa.py_buffer(base64.b64decode(stored["arrow"]))).read_all()
        return table.column(0).combine_chunks()
    if (plain := _as_plain(kind)) is not None:
        return pa.array(stored, plain).cast(kind)
    return pa.array([from_json(stored_number) for stored_number in stored], kind)
