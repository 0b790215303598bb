"""The steps of a declaration: which one comes next, and what is a user told who calls another one?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.declarations.errors import did_you_mean

_STEPS = (
    ("window", "windows"),
    ("aggregate", "operator"),
    ("to_delta", "transform"),
    ("start", "with_sink", "foreach_batch"),
    ("await_end", "stop", "drain", "flush", "status", "process_available", "progress", "on_batch", "live"),
)
"""The methods of a stream, of one with its window, of a computation, of a complete job and of a running one."""
_NEXT = (
    ".window(TimeInterval(...))",
    ".aggregate(n=agg.count())",
    ".to_delta(path)",
    ".start(checkpoint=...)",
)
"""The step that has most often to be taken after so many."""

_ELSEWHERE = {
    "windowed(..., partition_by=...)": "group_by groupby key_by keyby partition_by",
    "windowed(..., event_time=..., watermark=...)": "with_watermark watermark assign_timestamps_and_watermarks",
    "windowed(..., dedupe=..., dedupe_for=...)": "drop_duplicates drop_duplicates_within_watermark distinct",
    "the DataFrame, before windowed(df, ...)": "select filter where with_column map flat_map union",
    'TimeInterval("1 hour", discard_age=...)': "allowed_lateness grace",
    'TimeInterval("1 hour", early=...)': "early_firings",
    '.start(checkpoint=..., trigger="available_now"), or early= of the window': "trigger",
    ".aggregate(n=agg.count())": "agg count sum min max avg mean reduce aggregate_by_key",
    "ports(a, b).join(...), or without windows .join_within(...)": "join join_within interval_join connect co_group",
    ".operator(...)": "process apply transform_with_state apply_in_pandas_with_state flat_map_groups_with_state",
    ".to_delta(path)": "write_stream write_to sink_to add_sink to to_table output_mode format option options print",
    ".to_delta(path, quarantine=...)": "side_output_late_data get_side_output",
    ".to_delta(path).foreach_batch(...)": "foreach foreach_batch",
    ".start(checkpoint=...), and then .await_end()": "execute run await_termination await_any_termination",
}
"""What to write -> what Spark, Flink and Kafka Streams call that, as words."""
_THEIRS = {word: ours for ours, words in _ELSEWHERE.items() for word in words.split()}


class Step(Displayed):
    """A declaration that is not complete yet, or not started."""

    _place: ClassVar[int]
    """How many steps lead to it."""
    _next: ClassVar[str] = ""
    """The step that follows, where it is not the usual one."""

    if not TYPE_CHECKING:  # where a name that is not there is to stay an error

        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError` that says which step is to be taken."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(self._refusal(name))

    def _refusal(self, name: str) -> str:
        heading, theirs = str(next(iter(self._described()))), re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        what = f"the {heading}{',' * (',' in heading)} has no {name}()"
        if theirs in _THEIRS:
            return f"{what}; write {_THEIRS[theirs]}"
        upcoming = f"the next step is {self._next or _NEXT[self._place]}"
        if any(name in names for names in _STEPS[self._place :]):
            return f"{what} yet; {upcoming}"
        if any(name in names for names in _STEPS[: self._place]):
            return f"{what}, which comes before it; {upcoming}"
        own = [one for one in dir(type(self)) if not one.startswith("_")]
        return f"{what}{did_you_mean(name, own) or f'; {upcoming}'}"
