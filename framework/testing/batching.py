"""Decides where a vector's input is split into micro-batches and where the process restarts, for every engine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.testing.vector import CheckpointItem, Item, ResetItem

BatchSplit = Literal["whole", "each"] | int
"""How the input is split into micro-batches; an int seeds a random split."""

Restart = Literal["none", "each"] | list[int]
"""After which input items (positions from 0) the process stops and resumes."""


@dataclass(frozen=True, kw_only=True)
class VectorBatch:
    """One micro-batch. A checkpoint or a reset is one of its own: both act on the state between batches.

    Attributes:
        items: its items, in order.
        restart: whether the process stops after it.
    """

    items: tuple[Item, ...]
    restart: bool


def split_into_batches(items: Sequence[Item], cut: BatchSplit, restart_after: Restart) -> list[VectorBatch]:
    """Split the items into micro-batches.

    Args:
        items: the input of a vector.
        cut: as for `play`.
        restart_after: as for `play`.

    Raises:
        DeclarationError: `cut` or `restart_after` has none of its values.
    """
    restarts = _restart_points(len(items), restart_after)
    ends = _batch_ends(len(items), cut) | restarts
    for number, item in enumerate(items):
        if isinstance(item, CheckpointItem | ResetItem):
            ends |= {number - 1, number}
    batches, first = [], 0
    for end in sorted(end for end in ends | {len(items) - 1} if end >= 0):
        batches.append(VectorBatch(items=tuple(items[first : end + 1]), restart=end in restarts))
        first = end + 1
    return batches


def _batch_ends(count: int, cut: BatchSplit) -> set[int]:
    """Positions of the items that end a micro-batch."""
    if cut == "whole":
        return set()
    if cut == "each":
        return set(range(count))
    if isinstance(cut, bool) or not isinstance(cut, int):
        raise DeclarationError(f'cut is {cut!r}; it must be "whole", "each" or an int')
    chance = random.Random(cut)  # noqa: S311 -- a seed makes the same split again, nothing secret
    return set(chance.sample(range(count), chance.randint(0, count)))


def _restart_points(count: int, restart_after: Any) -> set[int]:
    """Positions of the items after which the process stops."""
    if restart_after == "none":
        return set()
    if restart_after == "each":
        return set(range(count))
    if not isinstance(restart_after, list) or not all(0 <= position < count for position in restart_after):
        raise DeclarationError(
            f'restart_after is {restart_after!r}; it must be "none", "each" or a list of positions of input items, '
            f"0 to {count - 1}"
        )
    return set(restart_after)
