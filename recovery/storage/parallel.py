"""Many small transfers at once: each costs a round trip or a flush of the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_THREADS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[Item, Result]]:
    """Do something with each item, several at a time; give the results in order, or raise the first error."""
    pool = ThreadPoolExecutor(_THREADS)
    try:
        yield from zip(items, pool.map(function, items), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)
