"""Many small transfers at the same time: each waits for a round trip or for a flush of the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
    """Call a function with each item, on several threads.

    Args:
        function: called with an item.
        items: its arguments.

    Yields:
        Each item with its result, in the order of the items.

    Raises:
        Exception: the first error of a call; calls that have not begun are cancelled.
    """
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield from zip(items, pool.map(function, items), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)
