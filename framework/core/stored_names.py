"""Names of columns that are stored beside the partition columns: a partition column cannot have one of them."""

from __future__ import annotations

import re

from panekeeper.framework.core.arrival.partitions import PARTITION_COLUMNS, VALUE_COLUMNS
from panekeeper.framework.core.panes.firing_rules import CELL_COLUMNS
from panekeeper.framework.core.panes.refinements import BEFORE_COLUMN, COUNT_COLUMN, PANE_COLUMN
from panekeeper.framework.core.sessions.open_table import SESSION_COLUMNS

_FIXED = frozenset(
    {
        *(column.stored for column in PARTITION_COLUMNS.values() if column.stored),
        *VALUE_COLUMNS.values(),
        *(PANE_COLUMN, BEFORE_COLUMN, COUNT_COLUMN, *CELL_COLUMNS),
        *SESSION_COLUMNS,
    }
)
_PART_OF_A_STATE = re.compile(r"\d+\.\d+")


def is_stored_name(name: str) -> bool:
    """Return whether a stored table of partitions has a column of this name of its own.

    >>> is_stored_name("_due"), is_stored_name("0.0"), is_stored_name("_id")
    (True, True, False)
    """
    return name in _FIXED or _PART_OF_A_STATE.fullmatch(name) is not None
