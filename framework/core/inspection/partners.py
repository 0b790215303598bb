"""Which partners has a row of an interval join, and what does it wait for? From the rows that both sides keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.inspection.kept_rows import goes_out_alone, join_of, kept_side
from panekeeper.framework.core.inspection.one_key import Values, is_of
from panekeeper.framework.core.inspection.reasons import (
    Answer,
    SourceTime,
    Verdict,
    nothing_kept,
    source_lines,
    time_text,
)
from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.inspection.refusals import Refusal, refusal_lines
from panekeeper.state.codec import decode_table
from panekeeper.state.records import NEVER, NO_WATERMARK, JoinRecord
from panekeeper.state.store import MemoryStore

_MOST_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class RowFacts:
    """What is known of a row of one side, by its columns that must be equal and its time; times in us.

    Attributes:
        port: its side.
        time: its event time.
        kept: how many such rows are kept.
        has_met: whether one of them has had a partner; None: that is not kept.
        partners: the event times of the kept rows of the other side that match, the earliest first.
        reach: the first and the last time that a partner may have.
        leaves_at: the watermark at which it leaves.
        watermark: the one of the job.
        alone: whether it goes out alone without a partner.
        without: the columns that are null, which are equal to nothing.
        others_left: whether partners may have left already.
        is_flushed: a flush has ended the join.
        refused: what the quarantine has of such a row.
        sources: how far event time has come.
    """

    port: int
    time: int
    kept: int
    has_met: bool | None
    partners: Sequence[int]
    reach: tuple[int, int]
    leaves_at: int
    watermark: int
    alone: bool
    without: Sequence[str] = ()
    others_left: bool = False
    is_flushed: bool = False
    refused: Sequence[Refusal] = ()
    sources: Sequence[SourceTime] = ()


def equal_types(port: RecordedPort, ports: Sequence[RecordedPort], store: MemoryStore) -> dict[str, pa.DataType]:
    """Return the columns of a side that must be equal, with their types, as far as rows of either side tell them."""
    names = port.fields["equal"][port.number]
    types = dict(zip(names, port.keys.types, strict=False))
    for side in (port, ports[1 - port.number]):
        table = _any_rows(side, store)
        for name, own in zip(names, side.fields["equal"][side.number], strict=True):
            if table is not None:
                types.setdefault(name, table.schema.field(own).type)
    return {name: types.get(name, pa.string()) for name in names}


def row_facts(
    port: RecordedPort,
    ports: Sequence[RecordedPort],
    store: MemoryStore,
    values: Values,
    at: int,
    *,
    refused: Sequence[Refusal] = (),
    sources: Sequence[SourceTime] = (),
    watermark: int = NO_WATERMARK,
) -> RowFacts:
    """Return what is known of a row with these values at this time; `watermark` is the one that the job has."""
    record, other, join = JoinRecord.decode(store.read_header()), ports[1 - port.number], join_of(port)
    before, after = join.reach(port.number)
    hold, alone = join.hold_us(port.number), goes_out_alone(port)
    now = max(record.watermark, watermark)
    kept, has_met = 0, False
    if (mine := _side(port, store, record, values)) is not None and at >= now - hold:
        is_it = _are(mine.rows, values) & (mine.times == at)
        kept = int(is_it.sum())
        unmet = np.isin(np.flatnonzero(is_it), mine.give_up(NO_WATERMARK, NEVER))
        has_met = not unmet.all()
    without, partners = [name for name, value in values.items() if not value.is_valid], []
    start = now - join.hold_us(other.number)
    theirs = dict(zip(other.fields["equal"][other.number], values.values(), strict=True))
    if not without and (other_side := _side(other, store, record, theirs)) is not None:
        times = other_side.times[_are(other_side.rows, theirs)]
        partners = sorted(times[(times >= at - before) & (times <= at + after) & (times >= start)].tolist())
    return RowFacts(
        port=port.number,
        time=at,
        kept=kept,
        has_met=has_met if alone else None,
        partners=partners,
        reach=(at - before, at + after),
        leaves_at=at + hold + 1,
        watermark=now,
        alone=alone,
        without=without,
        others_left=at - before < start,
        is_flushed=record.flushed,
        refused=refused,
        sources=sources,
    )


def _are(rows: pa.Table, values: Values) -> np.ndarray:
    matches: np.ndarray = is_of(rows, values).to_numpy(zero_copy_only=False)
    return matches


def _side(port: RecordedPort, store: MemoryStore, record: JoinRecord, values: Values) -> Any:
    rows = _any_rows(port, store)
    columns = None if rows is None else pa.schema([rows.schema.field(name) for name in values])
    return None if columns is None else kept_side(port, store, record, columns)


def _any_rows(port: RecordedPort, store: MemoryStore) -> pa.Table | None:
    """Return some stored rows of a side; None if there are none."""
    kind = f"{port.part}rows"
    return next((decode_table(body) for (of, _, _), body in store.entries.items() if of == kind), None)


def why_joined(facts: RowFacts) -> Answer:
    """Return which partners a row has, or what it waits for, and until when."""
    if facts.kept:
        answer = _of_kept(facts)
        return replace(answer, reasons=(*answer.reasons, *refusal_lines(facts.refused)))
    if facts.refused:
        lines = refusal_lines(facts.refused)
        verdict = Verdict.DROPPED if facts.refused[0].reason == "LATE" else Verdict.QUARANTINED
        return Answer(verdict=verdict, batch=facts.refused[0].batch, reasons=tuple(lines))
    if facts.is_flushed:
        return Answer(
            verdict=Verdict.CLOSED, reasons=("a flush has ended the join; the log has what came of its rows",)
        )
    if facts.watermark >= facts.leaves_at:
        left = (
            f"the watermark, {time_text(facts.watermark)}, is past {time_text(facts.leaves_at - 1)}, so a row of this "
            "time has left; the log has what came of it"
        )
        return Answer(verdict=Verdict.CLOSED, reasons=(left,))
    if facts.without and not facts.alone:
        return Answer(verdict=Verdict.NEVER, reasons=(_null_line(facts), "it is not kept, as it can be no result"))
    would = [f"it would meet {_rows_text(facts)}"] if facts.partners else []
    lines = [
        "no such row is kept",
        *would,
        f"one would be until the watermark is past {time_text(facts.leaves_at - 1)}",
    ]
    return Answer(verdict=Verdict.NEVER, reasons=tuple(lines))


def _of_kept(facts: RowFacts) -> Answer:
    lines = [f"{facts.kept} such rows are kept"] if facts.kept > 1 else []
    past = f"the watermark, now {time_text(facts.watermark)}, is past {time_text(facts.leaves_at - 1)}"
    if facts.partners or facts.has_met:
        has = f"it has met {_rows_text(facts)}" if facts.partners else "it has had a partner, which has left"
        return Answer(verdict=Verdict.FIRED, reasons=(*lines, has, f"further partners may come until {past}"))
    if facts.without:
        lines.append(_null_line(facts))
    else:
        first, last = map(time_text, facts.reach)
        lines.append(f"no row of port {1 - facts.port} that matches is kept: a partner is of {first} to {last}")
    if facts.has_met is None and facts.others_left:
        lines.append("earlier partners may have left already; the log has what they made")
    lines.append(f"without one it {'goes out alone' if facts.alone else 'leaves without a result'} once {past}")
    return Answer(verdict=Verdict.WAITING, reasons=(*lines, *source_lines(facts.sources)))


def _rows_text(facts: RowFacts) -> str:
    count, shown = len(facts.partners), ", ".join(map(time_text, facts.partners[:_MOST_SHOWN]))
    more = f" and {count - _MOST_SHOWN} more" if count > _MOST_SHOWN else ""
    return f"{count} row{'s' if count != 1 else ''} of port {1 - facts.port}: {shown}{more}"


def _null_line(facts: RowFacts) -> str:
    return f"{', '.join(facts.without)} is null, which is equal to nothing"


def why_side(held: Mapping[str, Any] | None, sources: Sequence[SourceTime], refused: Sequence[Refusal] = ()) -> Answer:
    """Return what a side of an interval join keeps of a partition; `held` is its row of `kept_partitions`.

    `refused` is what the quarantine has of the partition.
    """
    if held is None:
        return nothing_kept(refused)
    count, first, last = held["rows"], time_text(held["first_row"]), time_text(held["last_row"])
    lines = [f"{count} row{'s' if count != 1 else ''} of {first} to {last}"]
    if held["waiting"]:
        alone = f"the first goes out alone once the watermark is past {time_text(held['fires_at'] - 1)}"
        lines.append(f"{held['waiting']} of them without a partner; {alone}")
    lines.append(f"the first row leaves once the watermark is past {time_text(held['leaves_at'] - 1)}")
    return Answer(verdict=Verdict.WAITING, reasons=(*lines, *source_lines(sources), *refusal_lines(refused)))
