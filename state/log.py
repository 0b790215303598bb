"""Panekeeper's loggers: named `panekeeper.<part>`, and each record has the fields `job` and `batch`, None if unknown.

A library prints nothing: without a handler of the program's own, records go nowhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

ROOT = "panekeeper"
PROGRESS = "progress"
"""The part whose records the command line shows on a terminal."""

_job: ContextVar[str | None] = ContextVar("job", default=None)
_batch: ContextVar[int | None] = ContextVar("batch", default=None)

logging.getLogger(ROOT).addHandler(logging.NullHandler())


class _Logger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Complete the fields, so that the format of a handler may name them."""
        fields = {"job": _job.get(), "batch": _batch.get()} | dict(self.extra or {})
        return msg, {**kwargs, "extra": fields | (kwargs.get("extra") or {})}


def logger(part: str, **fields: Any) -> logging.LoggerAdapter[logging.Logger]:
    """Return the logger of a part of Panekeeper, such as "job"; `fields` are those of all its records."""
    return _Logger(logging.getLogger(f"{ROOT}.{part}"), fields)


progress = logger(PROGRESS)
"""The steps of a call that may take long, as to read a table: each at the level INFO, as it begins."""


@contextmanager
def log_fields(*, job: str, batch: int) -> Iterator[None]:
    """Set the fields of all records that are written in the block, in this context."""
    tokens = _job.set(job), _batch.set(batch)
    try:
        yield
    finally:
        _job.reset(tokens[0])
        _batch.reset(tokens[1])
