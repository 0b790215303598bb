"""The base class of aggregates that a user writes."""

from __future__ import annotations

from typing import Any, ClassVar


class UserAggregate:
    """An aggregate of your own: subclass, define `zero`, `add` and `result`, and perhaps `merge` or `remove`.

    Without `merge` every window keeps its rows and the result is computed from all of them each time it fires.
    With `merge`, and `state` to say what is stored, only partial results are kept, and overlapping windows share
    them. Then a value of the state must be the same after it was stored as `state`: use 64-bit floats, and lists rather
    than tuples. Values that are null are not added.

    With `remove`, and without `merge`, a sliding window goes from one firing to the next by removing what left and
    adding what entered. Define it only if it undoes `add` exactly (counts, sets, integers; not sums of floats), else
    the last bits depend on where the stream is split into batches.

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
    """Type of the stored state: an Arrow type, or `bool`, `int`, `float`, `str`, `bytes`, or a `list[...]` of these."""

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
