"""What is stored between micro-batches: it gives the same again, anywhere, and tells what happens next."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from panekeeper.diagnostics.replay.capsule import case_of_group
from panekeeper.diagnostics.replay.replay import RecordedGroup
from panekeeper.framework.core.inspection.differences import rows_difference, state_difference
from panekeeper.framework.core.inspection.open_work import open_work
from panekeeper.framework.core.inspection.recorded import RecordedPort, recorded_ports
from panekeeper.framework.core.steps import Flush, Rows, Tick, Watermark
from panekeeper.framework.testing.capsule import Capsule
from panekeeper.framework.testing.every_cut import _End
from panekeeper.state.compatibility import fingerprint
from panekeeper.state.history import WINDOWS
from tests.laws.playing import Broken, Play, report


def require_replays(play: Play, chance: random.Random) -> None:
    """Raise `Broken` unless a batch gives the same when it is run again, and in a capsule of one partition."""
    if not play.batches:
        return
    place = chance.randrange(len(play.batches))
    batch, before, after = play.batches[place], play.stored[place][0], play.stored[place + 1][0]
    again = before.copy()
    outcome = batch.groups[0].run(play.job.new_spec(), again)
    first = batch.outcomes[0]
    for name, one in first.parts.items():
        if what := rows_difference(one.results, outcome.parts[name].results):
            raise Broken(report(f"batch {batch.number} gives the same when it is run again", what, play))
    what = rows_difference(first.rejected, outcome.rejected) or state_difference(after, again)
    if what or first.counts != outcome.counts:
        raise Broken(report(f"batch {batch.number} leaves the same when it is run again", what or "counts", play))
    _require_capsule(play, chance, place)


def _require_capsule(play: Play, chance: random.Random, place: int) -> None:
    """Raise `Broken` unless what a capsule of a partition gives is what the batch gave to it."""
    batch = play.batches[place]
    tables = [
        one.table for one in batch.groups[0].steps if isinstance(one, Rows) and one.port == 0 and one.table.num_rows
    ]
    keys = play.job.spec.keys
    key: dict[str, Any] = {}
    if tables and keys.names:
        row = chance.randrange(tables[0].num_rows)
        key = {name: tables[0].column(name)[row] for name in keys.names}
    elif keys.names:
        return
    group = RecordedGroup(spec=play.job.new_spec(), store=play.stored[place][0], batch=batch.groups[0])
    case = case_of_group(group, key, job="run")
    ran = Capsule.from_json(json.loads(json.dumps(case.to_json()))).run()
    if not ran.is_equal:
        law = f"a capsule of batch {batch.number} gives the same anywhere"
        raise Broken(report(law, "; ".join(ran.differences), play))


def require_forecasts(base: Play) -> None:
    """Raise `Broken` unless what `panes` says before a watermark, a tick or a row is what that does."""
    declaration = base.declaration
    if declaration.follows:
        return
    apart = replace(base.case, ends=(_End.CUT,) * len(base.case.items))
    play = Play(declaration, apart)
    ports = recorded_ports(_recorded(play.job.pipeline.declaration()))
    for place, batch in enumerate(play.batches):
        for port in ports:
            before = open_work(port, play.stored[place][0])
            if declaration.window is not None and "aggregates" in declaration.options:
                _require_forecast(play, port, before, place, batch.groups[0].steps)


def _recorded(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a checkpoint records of a job."""
    if WINDOWS in declaration:
        return {WINDOWS: {name: fingerprint(one) for name, one in declaration[WINDOWS].items()}}
    return fingerprint(declaration)


def _require_forecast(play: Play, port: RecordedPort, before: pa.Table, place: int, steps: Any) -> None:
    """Raise `Broken` unless a watermark alone fires what was said."""
    step = steps[-1] if steps else Flush()
    if not isinstance(step, Watermark) or any(isinstance(one, Rows | Tick) for one in steps):
        return
    if not port.has_panes or "group_within" in play.declaration.options:
        return
    told = {
        _place(row, port.keys.names, "pane_start")
        for row in before.to_pylist()
        if row["fires_at"] is not None and row["fires_at"] <= step.us
    }
    results = play.batches[place].outcomes[0].results
    start = "session_start" if port.is_session else "pane_start"
    fired = set()
    for row in [] if results is None else _in_us(results).to_pylist():
        if row["reason"] != "FILLED":
            fired.add(_place(row, play.key_names, start))
    if told != fired:
        what = f"{sorted(told)} were said to fire at {step.us / 1e6} s, in batch {place}, and {sorted(fired)} did"
        raise Broken(report("what fires is what `panes` has said", what, play))


def _place(row: dict[str, Any], names: list[str], start: str) -> str:
    key = [row[name] + 0.0 if isinstance(row[name], float) else row[name] for name in names]
    return repr((key, row[start]))


def _in_us(results: pa.Table) -> pa.Table:
    """Return results with the starts of panes in us."""
    for name in ("pane_start", "session_start"):
        if name in results.column_names:
            number = results.column_names.index(name)
            results = results.set_column(number, name, results.column(name).cast(pa.int64()))
    return results
