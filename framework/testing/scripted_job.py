"""The job of a script: its inputs, what is computed of them, and its micro-batches; the same for both engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panekeeper.framework.declarations.windows import ArrivalWindow, Window

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from panekeeper.framework.builder.outputs import Computation
    from panekeeper.framework.builder.windowed import WindowedStream

_NAME = "run"
"""Name of the job of a script."""


@dataclass(frozen=True, kw_only=True)
class ScriptBatch:
    """One micro-batch of a script, or a part of one.

    Attributes:
        number: its number, from 0.
        tables: the rows of each port.
        now_us: the wall clock, us since the epoch.
        is_start: whether it is the first one of a run.
        is_tick: whether the clock has moved on for it.
        is_flush: whether the job is flushed in it, and ends.
        is_continued: whether the next one is part of the same micro-batch: a list has a clock or watermark in it.
        watermark_us: the watermark that the script has reached, us; None before the first, or if it follows the rows.
    """

    number: int
    tables: tuple[pa.Table, ...]
    now_us: int
    is_start: bool = False
    is_tick: bool = False
    is_flush: bool = False
    is_continued: bool = False
    watermark_us: int | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptPort:
    """One input of a script.

    Attributes:
        name: as the script names it; None for the only one.
        window: its window; None if it has none, as those of `join_within`, or several.
        columns: of its rows.
        options: further arguments of `windowed()`.
        windows: its windows by their names, if it has several.
    """

    name: str | None
    window: Window | None
    columns: StructType
    options: Mapping[str, Any]
    windows: Mapping[str, Window] = field(default_factory=dict)

    @property
    def has_panes(self) -> bool:
        """Whether its rows go by event time, and so by the watermark."""
        return self.options.get("event_time") is not None and not isinstance(self.window, ArrivalWindow)

    @property
    def arrow_columns(self) -> pa.Schema:
        """The columns with their types in Arrow."""
        from panekeeper.framework.engine.session.columns import arrow_schema

        return arrow_schema(self.columns)


@dataclass(frozen=True, kw_only=True)
class ScriptedJob:
    """A script with all that it is played through.

    Attributes:
        ports: the inputs, in order.
        compute: makes a computation of streams with their windows.
        batches: the micro-batches, in order.
        has_watermarks: whether the script says what the watermark is; else it follows the rows.
    """

    ports: tuple[ScriptPort, ...]
    compute: Callable[[Sequence[Any]], Computation]
    batches: tuple[ScriptBatch, ...] = ()
    has_watermarks: bool = False

    def computation(self, streams: Sequence[Any], **further: Any) -> Computation:
        """Declare the job on a stream for each port, of Spark or scripted, with further arguments of `windowed()`."""
        from panekeeper.framework.builder.windowed import windowed

        declared = [  # nobody is warned of a watermark without a delay: a script says what is late, or shows it
            windowed(stream, name=_NAME, **({"watermark": 0} | dict(port.options) | further))
            for stream, port in zip(streams, self.ports, strict=True)
        ]
        return self.compute(
            [_windowed(windowed_stream, port) for windowed_stream, port in zip(declared, self.ports, strict=True)]
        )


def _windowed(stream: WindowedStream, port: ScriptPort) -> Any:
    """Return a stream with its window, or windows, if it has any."""
    if port.windows:
        return stream.windows(**port.windows)
    return stream if port.window is None else stream.window(port.window)
