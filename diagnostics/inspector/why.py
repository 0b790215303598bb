"""Why did a pane fire, or why is there no result? Which pane is meant by what is asked, or which panes a row is of.

What is known of the partition is in `partition.py`; what follows from it is up to `core.inspection.reasons`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from datetime import time as time_of_day
from functools import partial
from typing import TYPE_CHECKING, Any

from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.diagnostics.inspector.partition import MOST_PANES, FindMover, Partition, read_partition
from panekeeper.framework.core.inspection.kept_rows import has_row
from panekeeper.framework.core.inspection.nearest import pane_text
from panekeeper.framework.core.inspection.partners import why_joined
from panekeeper.framework.core.inspection.reasons import Answer, Verdict, unplaced_lines
from panekeeper.framework.core.inspection.refusals import Refusal
from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.declarations.durations import time_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.windows import Session, SlidingByRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.diagnostics.keys import Key
    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.core.inspection.recorded import RecordedPort
    from panekeeper.recovery.storage.locations import Location
    from panekeeper.recovery.storage.s3 import S3Options

_NEAR = 3
_DAY_US = 86_400_000_000


def why(  # noqa: PLR0913 -- all by keyword but what is asked of
    checkpoint: Location,
    key: Key | None = None,
    pane: str | datetime | None = None,
    *,
    row: Mapping[str, Any] | None = None,
    window: str | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    job: DeltaJob | str | os.PathLike[str] | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Answer:
    """Return why a pane of a partition has fired, has not fired yet, or is not there.

    Args:
        checkpoint: the job's checkpoint; with `savepoint`, the location of the savepoints.
        key: partition column -> value, for each of the partition columns; of several streams also `port`, which is 0
            if not given.
        pane: when the pane, or session, starts: a time, or text as `"2013-03-08T10:00"`, in UTC if it has no zone; of
            panes that begin together, `"START/END"`. A time within the only pane that has it will do, and a time of
            day, `"10:00"`, of the only known pane that begins then, or has it. None for windows in arrival order and
            interval joins.
        row: in place of `key` and `pane`, a row by its columns: the answer is of the first of its panes, and names the
            others; or why it was dropped, or that a settlement has added it. Of an interval join: which partners it
            has, or what it waits for.
        window: the name of one of several windows.
        batch: as of an earlier batch.
        savepoint: the name of a savepoint.
        job: the declared job, or the file that declares it: of a pane that fired as complete, the answer then names the
            row that has moved the watermark past it, by its file or its offset in Kafka. Its batch is read again.
        s3: how S3 is reached.
        spark: the session that reads; a new one if not given.

    Raises:
        CheckpointError: it is no checkpoint, or the state of the batch is not kept.
        DeclarationError: a key column or a pane is missing, or cannot be one; or a job is given for a savepoint.
    """
    if job is not None and savepoint is not None:
        raise DeclarationError("job is given for a savepoint, and rows are read again by the checkpoint of a job")
    declared = _declared(job, spark)
    if declared is not None and spark is None:
        spark = declared.pipeline.intake.df.sparkSession
    with opened(checkpoint, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        state.require_one_window()
        key = dict(key or {})
        own, find_mover = _port(state, key), _finder(state, declared)
        if row is not None:
            return _why_row(state, own, row, find_mover)
        partition = read_partition(state, own, key)
        if not own.has_panes:
            return partition.why_partition()
        if pane is None:
            raise DeclarationError("pane is missing; say when it starts, as in --pane 2013-03-08T10:00")
        return partition.why(*bounds_of(own, partition, pane), find_mover)


def _declared(job: DeltaJob | str | os.PathLike[str] | None, spark: SparkSession | None) -> DeltaJob | None:
    if not isinstance(job, str | os.PathLike):
        return job
    from panekeeper.recovery.upgrade.job_file import load_job

    return load_job(job, spark=spark)


def _finder(state: Opened, job: DeltaJob | None) -> FindMover | None:
    """Return what finds the row that has moved a watermark, where the job is given whose rows can be read again."""
    if job is None:
        return None
    from panekeeper.diagnostics.inspector.moving_row import moving_row

    return partial(moving_row, state.files, job)


def _port(state: Opened, key: dict[str, Any]) -> RecordedPort:
    """Take the port out of a key, where there are several."""
    number = key.pop(PORT, 0) if len(state.ports) > 1 else 0
    numbers = {str(port.number): port for port in state.ports}
    if str(number) not in numbers:
        raise DeclarationError(f"port is {number!r}; the job has the ports 0 to {len(state.ports) - 1}")
    return numbers[str(number)]


def _why_row(state: Opened, port: RecordedPort, row: Mapping[str, Any], find_mover: FindMover | None) -> Answer:
    missing = [name for name in (*port.row_keys, port.event_time) if name is not None and name not in row]
    if missing:
        raise DeclarationError(f"row lacks {', '.join(map(repr, missing))}, by which it finds its pane")
    names = dict(zip(port.row_keys, port.log_keys, strict=True))
    partition = read_partition(state, port, {names[name]: row[name] for name in names})
    if port.is_arrival or port.event_time is None:
        return partition.why_partition()
    if row[port.event_time] is None:
        return without_time(partition.refused)
    at = time_of(row[port.event_time], "the event time of the row")
    if port.is_within:
        return why_joined(partition.row_facts(row, at))
    bounds = partition.panes_at(at)
    if refused := [refusal for refusal in partition.refused if refusal.at == at and not refusal.of_firing]:
        return partition.why_refused(at, bounds, refused)
    if not bounds:
        gap = "no open session has it" if port.is_session else "it lies between two panes, and in none"
        return Answer(verdict=Verdict.NEVER, reasons=(gap, *partition.nearest(at)))
    first, answer = bounds[0], partition.why(*bounds[0], find_mover)
    others = [(pane, partition.why(*pane)) for pane in bounds[1:MOST_PANES]]
    more = [f"it is also of pane {pane_text(*pane)}: {each.verdict.value}" for pane, each in others]
    more += [f"and of {len(bounds) - MOST_PANES} more"] if len(bounds) > MOST_PANES else []
    verdicts = {answer.verdict, *(each.verdict for _, each in others)}
    known = row_line(
        is_known=not verdicts <= {Verdict.NEVER, Verdict.NOT_YET},
        is_held=any(partition.is_held(*pane) for pane in bounds),
        is_kept=has_row(port, partition.store, partition.stored_key, at),
    )
    return replace(answer, reasons=(f"its pane is {pane_text(*first)}", known, *answer.reasons, *more))


def without_time(refused: Sequence[Refusal]) -> Answer:
    """Return what becomes of a row without an event time; `refused` is what the quarantine has of its partition."""
    from panekeeper.framework.engine.flow.row_checks import NULL_EVENT_TIME  # needs pyspark

    such = [refusal for refusal in refused if refusal.reason == NULL_EVENT_TIME]
    line = f"a row without an event time is of no pane: it is refused, and goes to the quarantine as {NULL_EVENT_TIME}"
    if not such:
        return Answer(verdict=Verdict.NEVER, reasons=(line, "the quarantine has no such row of this partition"))
    return Answer(verdict=Verdict.QUARANTINED, batch=such[0].batch, reasons=(line, *unplaced_lines(such)))


def row_line(*, is_known: bool, is_held: bool, is_kept: bool | None) -> str:
    """Return what is known of a row that was not refused.

    Args:
        is_known: whether anything is known of one of its panes.
        is_held: whether the state has one of them.
        is_kept: whether a row of its time is kept; None: only partial results are.

    >>> row_line(is_known=True, is_held=True, is_kept=False)
    'no row of this time is kept or in the quarantine'
    """
    if not is_known:
        return "no row of this time is known: its panes have none"
    if is_held and is_kept is not None:
        return "a row of this time is kept" if is_kept else "no row of this time is kept or in the quarantine"
    whose = "of its panes only partial results are kept" if is_held else "its panes are closed, and their rows removed"
    return f"no row of this time is in the quarantine; whether one is in the results is not known, as {whose}"


def bounds_of(port: RecordedPort, partition: Partition, pane: str | datetime) -> tuple[int, int]:
    """Return the bounds of the pane, or session, that starts when it is said. Raises `DeclarationError`."""
    if isinstance(pane, str) and (clock := _clock_of(pane)) is not None:
        return _bounds_by_clock(partition, pane, clock)
    first, slash, last = pane.partition("/") if isinstance(pane, str) else (pane, "", "")
    at = time_of(first, "pane")
    window = port.declared
    if isinstance(window, SlidingByRow):
        return at, at + window.difference_us
    there = partition.panes_at(at)
    if isinstance(window, Session):
        if slash:
            return at, time_of(last, "pane")
        return there[0] if there else (at, at + (window.gap_us or 0))
    panes = [bounds for bounds in there if bounds[0] == at and (not slash or bounds[1] == time_of(last, "pane"))]
    if len(panes) == 1:
        return panes[0]
    if panes:
        listed = ", ".join(pane_text(*bounds) for bounds in panes[:_NEAR])
        raise DeclarationError(f"pane is {pane}, and {len(panes)} panes begin then; give one as START/END, as {listed}")
    if len(there) == 1 and not slash:
        return there[0]
    listed = ", ".join(pane_text(*bounds) for bounds in there[:_NEAR]) or "none"
    raise DeclarationError(f"pane is {pane}, and no pane begins then; those that have this instant: {listed}")


def _clock_of(text: str) -> int | None:
    """Return a time of day in us; None for a text that has a day, too, or is no time."""
    try:
        time = time_of_day.fromisoformat(text)
    except ValueError:
        return None
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


def _bounds_by_clock(partition: Partition, pane: str, clock: int) -> tuple[int, int]:
    panes = panes_by_clock([*partition.known_panes(), *partition.refused_panes()], clock)
    if len(panes) == 1:
        return panes[0]
    if panes:
        listed = ", ".join(pane_text(*bounds) for bounds in panes[:_NEAR])
        what = "begin then" if panes[0][0] % _DAY_US == clock else "have it"
        raise DeclarationError(
            f"pane is {pane}, a time of day, and {len(panes)} panes that are known {what}; give one as START/END, as "
            f"{listed}"
        )
    meant = partition.meant_instead()
    if partition.port.log_keys and not partition.is_known:
        why_not = "; ".join(["nothing of this partition is known", *meant])
        raise DeclarationError(f"pane is {pane}, a time of day, and {why_not}")
    why_not = "; ".join(["no pane that is known has it", *meant])
    raise DeclarationError(f"pane is {pane}, a time of day, and {why_not}; give the day, too, as 2013-03-08T{pane}")


def panes_by_clock(known: Iterable[tuple[int, int]], clock: int) -> list[tuple[int, int]]:
    """Return which panes begin at a time of day, us; or, if none does, which have it.

    >>> panes_by_clock([(0, 3600), (3600, 7200)], 3600), panes_by_clock([(0, 3600), (3600, 7200)], 60)
    ([(3600, 7200)], [(0, 3600)])
    """
    ordered = sorted({*known})
    return [bounds for bounds in ordered if bounds[0] % _DAY_US == clock] or [
        (start, end) for start, end in ordered if (clock - start) % _DAY_US < end - start
    ]


def time_of(value: Any, what: str) -> int:
    """Return a time in us since the epoch; one without a zone is in UTC. Raises `DeclarationError`.

    >>> time_of("1970-01-01T00:00:01", "pane")
    1000000
    """
    try:
        return time_us(datetime.fromisoformat(value) if isinstance(value, str) else value, what)
    except (TypeError, ValueError, AttributeError) as error:
        raise DeclarationError(f"{what} is {value!r}, which is no time; write one as 2013-03-08T10:00") from error


def read_row(text: str) -> dict[str, Any]:
    """Return a row that is written as JSON. Raises `DeclarationError`."""
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DeclarationError(f"row is {text!r}, which is no JSON ({error})") from error
    if not isinstance(row, dict):
        raise DeclarationError(f'row is {text!r}; write an object, as \'{{"carrier": "UA", ...}}\'')
    return row
