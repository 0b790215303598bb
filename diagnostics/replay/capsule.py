"""Makes a capsule of one partition in one batch of a real job: a test case without Spark and without the source.

What is stored of other partitions is left out, if the partition has the same results without it; with limits on the
number of partitions, as one example, it has not: then all of the key group is in the capsule.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.replay.replay import RecordedBatch, RecordedGroup, recorded_batch
from panekeeper.framework.core.group_batch import GroupBatch
from panekeeper.framework.core.inspection.differences import rows_difference
from panekeeper.framework.core.inspection.one_key import Values, each_table, key_names, rows_of, step_of, store_of_key
from panekeeper.framework.core.job_spec import REST
from panekeeper.framework.core.steps import EvictPartitions, PartialRows, Rows
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.testing.capsule import Capsule

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.diagnostics.keys import Key
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.core.steps import Step
    from panekeeper.recovery.storage.locations import Location
    from panekeeper.recovery.storage.s3 import S3Options

_OF_THE_GROUP = ("firing",)
"""Result columns that depend on what other partitions of the key group do."""
_HASH_DIGITS = 12


def capsule(
    checkpoint: Location,
    batch: int,
    key: Key,
    *,
    job: DeltaJob | str | os.PathLike[str],
    mask: Collection[str] = (),
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Capsule:
    """Return one partition in one batch as a test case: declaration, state before, rows, times, expected results.

    `json.dumps(capsule(...).to_json())` is the file that `panekeeper.testing.run_capsule` takes. What is expected is
    what comes out now; `panekeeper replay` says whether that is what was recorded.

    Args:
        checkpoint: the job's checkpoint.
        batch: the number of the batch, as for `replay`.
        key: partition column -> value, for each partition column; empty for a job without any.
        job: the declared job, or the file that declares it.
        mask: columns of text whose values are replaced by a hash, the same in all capsules of a checkpoint.
        s3: how S3 is reached.
        spark: the session that loads the file; a new one if not given.

    Raises:
        DeclarationError: as `replay`; or a column cannot be masked: it is no text, or partial results hold its values.
        CheckpointError: as `replay`.
        RowsGone: as `replay`.
    """
    opened = recorded_batch(checkpoint, batch, job=job, key=key, s3=s3, spark=spark)
    require_maskable(opened.spec, mask)
    return masked(case_of(opened), mask, opened.recorded.record.id)


def case_of(opened: RecordedBatch) -> Capsule:
    """Return a batch of one partition as a case."""
    group = next(iter(opened.groups), None)
    if group is None:
        batch = GroupBatch(number=opened.batch, group=opened.group or 0, steps=())
        spec, store = replace(opened.spec, handlers=()), opened.before.stores[batch.group]
        group = RecordedGroup(spec=spec, store=store, batch=batch)
    return case_of_group(group, opened.values, job=opened.recorded.record.name)


def case_of_group(group: RecordedGroup, key: Values, *, job: str) -> Capsule:
    """Return a batch of a key group as a case of one partition; with the others, if it is another one without them."""
    spec = group.spec
    whole = Capsule(
        job=job,
        batch=group.batch.number,
        key=key,
        spec=spec,
        store=group.store,
        steps=[_without_rest(step) for step in group.batch.steps],
        checkpoint=group.batch.checkpoint,
        results={},
        rejected=spec.rejected_schema.empty_table(),
        after=None,
        has_others=True,
    ).with_outcome()
    if spec.handlers:  # what they have stored is of all partitions
        return whole
    try:
        alone = replace(
            whole,
            store=store_of_key(whole.store, key, spec),
            steps=[step_of(step, key, spec) for step in whole.steps],
            has_others=False,
        ).with_outcome()
    except Exception:  # noqa: BLE001 -- whatever it is: the others are needed
        return whole
    same = all(
        rows_difference(rows_of(rows, key).drop_columns(of_group), alone.results[window].drop_columns(of_group)) is None
        for window, rows in whole.results.items()
        for of_group in [[name for name in _OF_THE_GROUP if name in rows.column_names]]
    )
    return alone if same else whole


def _without_rest(step: Step) -> Step:
    """Return a step without the columns that the job does not read, which only the quarantine would show."""
    if isinstance(step, Rows) and REST in step.table.column_names:
        return replace(step, table=step.table.drop_columns([REST]))
    return step


# Masks


def require_maskable(spec: JobSpec, mask: Collection[str]) -> None:
    """Raise `DeclarationError` for a column that cannot be masked: no text, or one that partial results hold."""
    if mask and spec.handlers:
        raise DeclarationError(
            f"mask names {', '.join(mask)}, and what state handlers have stored is in a capsule as it is; make it "
            "without mask="
        )
    columns = {field.name: field.type for port in spec.ports for field in (*port.columns, *port.keys)}
    keys = {name for names in key_names(spec) for name in names}
    for name in mask:
        if name not in columns:
            raise DeclarationError(f"mask names {name!r}, which the job does not read; it reads {', '.join(columns)}")
        if not pa.types.is_string(columns[name]):
            raise DeclarationError(
                f"mask names {name!r}, which is of the type {columns[name]}; only text is replaced by a hash: results "
                "would not be results of these numbers any more"
            )
        reading = [
            own
            for part in spec.parts.values()
            for own, aggregate in (part.aggregates or {}).items()
            if name in aggregate.columns or aggregate.parts or aggregate.user
        ]
        if reading and name not in keys:
            raise DeclarationError(
                f"mask names {name!r}, which the aggregate {reading[0]!r} may read: partial results in the state hold "
                "its values as they are; mask partition columns, or rows that are kept for an operator"
            )


def masked(case: Capsule, mask: Collection[str], salt: str) -> Capsule:
    """Return a case with hashes in place of the values of some columns, and what comes out then."""
    if not mask:
        return case
    spec = case.spec
    names = {*mask}
    for own in key_names(spec):  # as the other ports, and joined rows, call the same partition column
        names |= {name for place, name in enumerate(own) if any(other[place] in mask for other in key_names(spec))}

    def change(table: pa.Table) -> pa.Table:
        for place, name in enumerate(table.column_names):
            if name in names and pa.types.is_string(table.schema.field(place).type):
                field = table.schema.field(place)
                table = table.set_column(place, field, _hashes(table.column(place), salt))
        return table

    key = {
        name: pa.scalar(_hash(value.as_py(), salt), value.type) if name in names and value.is_valid else value
        for name, value in case.key.items()
    }
    steps = [_changed_step(step, change) for step in case.steps]
    changed = replace(case, key=key, store=each_table(case.store, change), steps=steps, masked=tuple(sorted(mask)))
    return changed.with_outcome()


def _changed_step(step: Step, change: Callable[[pa.Table], pa.Table]) -> Step:
    if isinstance(step, Rows | PartialRows):
        return replace(step, table=change(step.table))
    return replace(step, keys=change(step.keys)) if isinstance(step, EvictPartitions) else step


def _hashes(column: pa.ChunkedArray, salt: str) -> pa.Array:
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    words = pa.array([_hash(text, salt) for text in encoded.dictionary.to_pylist()], column.type)
    return words.take(encoded.indices)


def _hash(text: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}/{text}".encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
