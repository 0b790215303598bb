"""The base class of aggregates that a user writes."""

from __future__ import annotations

from typing import Any, ClassVar

from panekeeper.framework.declarations.parameters import shown_object


class UserAggregate:
    """An aggregate of your own: subclass, define `zero`, `add` and `result`, and perhaps `merge` or `remove`.

    Without `merge` every window keeps its rows and the result is computed from all of them each time it fires.
    With `merge`, and `state` to say what is stored, only partial results are kept, and overlapping windows share
    them. Each call of `add` gets the state as it is read back from `state`: with `state = float` an integer that `add`
    has returned comes back as a float, a tuple as a list, and a state that does not fit is refused with its row. The
    state is looked through after each row, so keep it small. Values that are null are not added.

    With `remove`, and without `merge`, a sliding window goes from one firing to the next by removing what left and
    adding what entered. Define it only if it undoes `add` exactly (counts, sets, integers; not sums of floats, nor what
    depends on the order in which a dict or set was filled), else the result depends on where the stream is split into
    batches.

    >>> class Range(UserAggregate):
    ...     state = list[float]
    ...     def zero(self):
    ...         return []
    ...     def add(self, state, value):
    ...         return [min([value, *state[:1]]), max([value, *state[1:]])]
    ...     def merge(self, a, b):
    ...         return [min(a[:1] + b[:1]), max(a[1:] + b[1:])] if a and b else a or b
    ...     def result(self, state):
    ...         return state[1] - state[0] if state else None
    """

    state: ClassVar[Any] = None
    """Type of the stored state: a type of Arrow or Spark, the name of one, such as `"array<double>"`, or `bool`, `int`,
    `float`, `str`, `bytes`, `list[...]` or `dict[..., ...]` of these. A map is a dict."""

    def __repr__(self) -> str:
        return shown_object(self)

    def zero(self) -> Any:
        """Return the state before any value; a fresh object each time if it is mutable."""
        raise TypeError(f"{type(self).__name__} must define zero()")

    def add(self, state: Any, value: Any) -> Any:
        """Return the state after one more value. Called in arrival order; may change `state` and return it."""
        raise TypeError(f"{type(self).__name__} must define add(state, value)")

    def merge(self, a: Any, b: Any) -> Any:
        """Return the state of all values of `a`, then all of `b`. Optional; `zero()` on either side changes nothing."""
        raise TypeError(f"{type(self).__name__} does not define merge(a, b)")

    def remove(self, state: Any, value: Any) -> Any:
        """Return the state without its oldest value. Optional; may change `state` and return it."""
        raise TypeError(f"{type(self).__name__} does not define remove(state, value)")

    def result(self, state: Any) -> Any:
        """Return the result, or None for null."""
        raise TypeError(f"{type(self).__name__} must define result(state)")
