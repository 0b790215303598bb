"""What have the key groups stored, of the state that is looked at? This process reads what Spark stores as is known.

Spark reads the rest: another format, much state, and what is damaged, which it may mend, or of which it says what is
wrong. Where a job runs, the state of a batch is removed only when a hundred later ones were committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from panekeeper.recovery.errors import ArchiveError
from panekeeper.state.log import logger
from panekeeper.state.spark_files.cursor import NotReadable
from panekeeper.state.spark_files.read_state import Segments, StoredState

if TYPE_CHECKING:
    from panekeeper.diagnostics.inspector.opened import Opened

Found = TypeVar("Found")

_MOST_BYTES = 2**29
"""Of more than that the tasks of Spark together are faster."""


def read_groups(state: Opened, kinds: Collection[str], compute: Callable[[Segments], Found]) -> list[Found] | None:
    """Return what is computed of each key group that has stored anything, by these kinds; None if Spark must read it.

    What the computation raises is raised.
    """
    return _read(state, kinds, None, compute)


def read_group(state: Opened, kinds: Collection[str], group: int) -> Segments | None:
    """Return what a key group, by its id, has stored of these kinds; None if Spark must read it."""
    groups = _read(state, kinds, group, lambda segments: segments)
    return None if groups is None else next(iter(groups), {})


def _read(
    state: Opened, kinds: Collection[str], group: int | None, compute: Callable[[Segments], Found]
) -> list[Found] | None:
    wanted, computed = frozenset(kinds), list[Found]()
    try:
        stored = StoredState.of(state.files, state.batch)
        places = stored.versions if group is None else [stored.partition_of(group)]
        for version in places:
            groups = stored.read(version, wanted, most=_MOST_BYTES // len(places))
            computed += [compute(segments) for own, segments in groups.items() if group in (None, own)]
    except (NotReadable, ArchiveError, OSError) as error:
        logger("inspector").info("the state of %s is read by Spark: %s", state.files.root, error)
        return None
    return computed
