"""What has fired before is one value, whichever kind of window has kept it, and however little it keeps."""

from __future__ import annotations

from panekeeper import Every, Session, TimeInterval
from panekeeper.framework.core.panes.batch import TimeIntervalBatch
from panekeeper.framework.core.panes.fires_at_end import FiresAtEnd
from panekeeper.framework.core.panes.fires_by_rules import FiresByRules
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.past_firings import PastFirings
from panekeeper.framework.core.sessions.open_table import OpenSessions
from panekeeper.framework.core.sessions.storage import stored_sessions
from panekeeper.framework.declarations.windows import Window
from panekeeper.state.records import SessionRecord
from panekeeper.state.store import MemoryStore
from tests.framework.core.panes.firings import KEYS, rows, run, spec_of, watermark

HISTORY = [[rows(("a", 1, 1), ("a", 2, 1), ("b", 2, 1)), watermark(10)], [rows(("a", 1, 1), ("c", 1, 1), ("b", 12, 1))]]
#   0        10       20
#   |  a b   |  (b)   |     a and b have fired as complete at 10; then a gets a late row, and c its first one, late
TOLD = [("a", 1, True, True), ("b", 0, False, True), ("b", 1, True, False), ("c", 0, False, True)]
"""Partition; how often it has fired, whether as complete, and whether it waits for a watermark."""


def stored(window: Window) -> MemoryStore:
    """Return what is stored after the history."""
    store = MemoryStore()
    run(spec_of(window), HISTORY, store)
    return store


def told(past: PastFirings, keys: PartitionKeys) -> list[tuple[str, int, bool, bool]]:
    """Return it as rows."""
    values = [past.fired.tolist(), past.complete.tolist(), past.waits.tolist()]
    return sorted(zip(keys.values(past.codes.tolist()), *values, strict=True))


def test_panes_tell_the_same_with_and_without_rules() -> None:
    """Without rules only what late rows reach is stored, and with a rule that never applies each partition is."""
    for rule, kind in (None, FiresAtEnd), (Every(rows=1000), FiresByRules):
        window = TimeInterval(10, discard_age=50, early=rule)
        loaded = TimeIntervalBatch(spec_of(window), stored(window)).window
        assert type(loaded.firings) is kind
        assert told(loaded.outlook(loaded.open_pairs()).past, loaded.keys) == TOLD


def test_sessions_tell_the_same_as_panes() -> None:
    """Those of this history are in the panes, one in each."""
    window = Session(8, discard_age=50)
    store, keys = stored(window), PartitionKeys(KEYS)
    sessions = OpenSessions(keys)
    sessions.add_stored(stored_sessions(SessionRecord.decode(store.read_header()), store))
    assert told(sessions.columns.past, keys) == TOLD
