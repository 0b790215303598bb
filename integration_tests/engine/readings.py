"""A story of readings that late and malformed rows, refinements and four micro-batches belong to; and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Reading

FILES: list[list[Reading]] = [
    [("a", "10:00:10", 1), ("b", None, 2)],
    [("a", "10:01:30", 4), ("b", "10:02:30", 8)],
    [("a", "10:00:40", 16), ("c", "10:02:40", 32)],
    [("c", "10:09:30", 64), ("b", "10:00:01", 128)],
]
LOG = [
    ("a", "10:00", 1, 1, 0, "WATERMARK"),
    ("a", "10:00", 17, 2, 1, "LATE"),
    ("a", "10:01", 4, 1, 0, "WATERMARK"),
    ("b", "10:00", 128, 1, 0, "LATE"),
    ("b", "10:02", 8, 1, 0, "WATERMARK"),
    ("c", "10:02", 32, 1, 0, "WATERMARK"),
]
