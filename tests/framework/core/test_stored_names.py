"""Names that a partition column cannot have: all that any window stores beside it, and no more is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from panekeeper import Batched, Count, Sliding, Time, TimeInterval, Tumbling, agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Rows, Step, Watermark
from panekeeper.framework.core.stored_names import is_stored_name
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.engine.flow.packing import RESERVED
from panekeeper.state.codec import decode_header, decode_table
from panekeeper.state.store import MemoryStore

S = 1_000_000
WINDOWS = [
    TimeInterval(10, creation_period=5, discard_age=600),
    Tumbling(Count(50)),
    Tumbling(Time(50)),
    Sliding(evict=Time(100), trigger=Count(3)),
    Batched(within=100.0, every=10.0),
]
FOLDED = {"n": agg.count(), "total": agg.sum("v")}
ROWS = FOLDED | {"all": agg.collect("v")}


def stored_names(window: Window, key: str) -> set[str]:
    """The columns of all tables that a window stores for a few rows of a partition; some rows fire panes again."""
    return stored_with(window, key, FOLDED) | stored_with(window, key, ROWS)


def stored_with(window: Window, key: str, aggregates: dict[str, Aggregate]) -> set[str]:
    """As `stored_names`, with partial results alone, or with rows."""
    columns = pa.schema([(key, pa.int64()), ("v", pa.int64())])
    output = pa.schema([(name, bind(one, columns).output) for name, one in aggregates.items()])
    keys = pa.schema([columns.field(key)])
    job = JobSpec(window=window, keys=keys, columns=columns, aggregates=aggregates, output=output)
    store, found = MemoryStore(), set[str]()
    for second in (1, 20, 12, 40):
        rows = pa.table({key: [1, 2], "v": [1, 2]}, schema=columns)
        time = EVENT_TIME if job.has_panes else ARRIVAL_TIME
        batch: list[Step] = [Watermark(second * S)] if job.has_panes else []
        at = pa.array([second * S] * 2, pa.int64())
        KeyGroupRunner(job, store).run([*batch, Rows(rows.append_column(time, at))])
        tables = [decode_table(one) for (kind, _, _), one in store.entries.items() if "header" not in kind]
        tables += [] if store.header is None else [*decode_header(store.header)[1].values()]
        found |= {name for table in tables for name in table.column_names}
    return found


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
def test_every_name_that_is_stored_is_refused_for_partition_columns(window: Window) -> None:
    """Else the first batch would fail, and each start after it."""
    assert {one for one in stored_names(window, "key") - {"key", "v"} if not is_stored_name(one)} <= {*RESERVED}


@pytest.mark.parametrize("window", WINDOWS, ids=repr)
@pytest.mark.parametrize("name", ["_id", "due", "1.", "refinement", "v2.0"])
def test_names_that_only_look_like_them_work(window: Window, name: str) -> None:
    """A partition column may be called so."""
    assert not is_stored_name(name)
    assert name in stored_names(window, name)
