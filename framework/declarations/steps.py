"""The steps from a stream to a running job: which one comes next, and what is a user told who calls another one?

What Spark, Flink and Kafka Streams call a method is here, once for all steps. What they call an option: `calls.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from panekeeper.framework.declarations.calls import as_ours, call_with_option
from panekeeper.framework.declarations.display import Displayed
from panekeeper.framework.declarations.errors import did_you_mean

_STEPS = (
    ("window", "windows"),
    ("aggregate", "operator"),
    ("to_delta", "transform"),
    ("start", "with_sink", "foreach_batch"),
    (
        *("await_end", "stop", "drain", "flush", "status", "process_available", "progress", "on_batch", "live"),
        *("running", "finished"),
    ),
)
"""What a stream has, one with its window, a computation, a complete job and a running one."""
_NEXT = (
    ".window(TimeInterval(...))",
    ".aggregate(n=agg.count())",
    ".to_delta(path)",
    ".start(checkpoint=...)",
)
"""The step that has most often to be taken after so many."""

_ELSEWHERE = {
    "windowed(..., name=...)": "query_name",
    "windowed(..., event_time=..., watermark=...)": "with_watermark watermark assign_timestamps_and_watermarks",
    "the DataFrame, before windowed(df, ...)": "select filter where with_column map flat_map union",
    '.start(checkpoint=..., trigger="available_now"), or early= of the window': "trigger",
    ".aggregate(n=agg.count())": "agg count sum min max avg mean reduce aggregate_by_key",
    "ports(a, b).join(...), or without windows .join_within(...)": "join join_within interval_join connect co_group",
    ".operator(...)": "process apply transform_with_state apply_in_pandas_with_state flat_map_groups_with_state",
    ".to_delta(path)": "write_stream write_to sink_to add_sink to format print",
    ".to_delta(table=...)": "to_table save_as_table insert_into",
    ".to_delta(path).start(checkpoint=...)": "option options",
    ".to_delta(path).foreach_batch(...)": "foreach foreach_batch",
    ".start(checkpoint=...), and then .await_end()": """
        execute run await_termination await_any_termination exception
    """,
    ".start(checkpoint=...), and then .running": "is_active",
    ".start(checkpoint=...), and then .status()": "last_progress recent_progress name state",
    ".start(checkpoint=...), and then .process_available()": "process_all_available",
}
"""What to write, from the step on that it may begin with -> what others call that, as words."""
_THEIRS = {word: ours for ours, words in _ELSEWHERE.items() for word in words.split()}


class Step(Displayed):
    """A declaration that is not complete yet or not started, or the job that was started."""

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

    @property
    def _heading(self) -> str:
        """What a message calls it."""
        return str(next(iter(self._described())))

    def _refusal(self, name: str) -> str:
        what = f"the {self._heading}{',' * (',' in self._heading)} has no {name}()"
        ours = _THEIRS.get(as_ours(name), "")
        if to_write := self._not_taken(ours):
            return f"{what}; write {to_write}"
        upcoming = self._upcoming
        if any(name in names for names in _STEPS[self._place :]):
            return f"{what} yet; {upcoming}"
        if ours or any(name in names for names in _STEPS[: self._place]):
            return f"{what}, which comes before it; {upcoming}"
        own = [method for method in dir(type(self)) if not method.startswith("_")]
        option = call_with_option(name)
        return what + (did_you_mean(name, own) or (f"; write {option}" if option else f"; {upcoming}"))

    def _not_taken(self, ours: str) -> str:
        """Return what is left to write where some steps are taken; empty for a step that is taken itself."""
        for taken in _NEXT[: self._place]:
            ours = ours.removeprefix(taken).removeprefix(", and then ")
        return ours

    @property
    def _upcoming(self) -> str:
        if self._place == len(_NEXT):
            return f"it has {', '.join(_STEPS[-1])}"
        return f"the next step is {self._next or _NEXT[self._place]}"
