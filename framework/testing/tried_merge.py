"""Is `merge`, or `remove`, of a user's aggregate what its `add` says? Tried on the values of each firing.

A broken one may pass all other tests: in panes that touch nothing is merged until the day that panes overlap or
sessions meet.
"""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa

from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.arrow_types import python_values, state_type
from panekeeper.framework.declarations.errors import user_traceback
from panekeeper.framework.declarations.user_aggregate import UserAggregate

_MOST_PLACES = 8
"""At so many places at most the values of a firing are split."""
_NEAR = 1e-6
"""So far results may be apart that are floats: sums in another order."""


class BrokenMerge(BaseException):
    """What `merge` or `remove` gives is not what `add` gives. No error of the user's code, which a job keeps apart."""


def tried(aggregates: Mapping[str, Any]) -> dict[str, Any]:
    """Return aggregates, or those of each window, that raise `BrokenMerge` where they fire; empty if none can."""
    tried_aggregates: dict[str, Any] = {}
    for name, aggregate in aggregates.items():
        if isinstance(aggregate, Mapping):
            tried_aggregates |= {name: dict(aggregate) | tried(aggregate)} if tried(aggregate) else {}
        elif isinstance(aggregate, Aggregate) and aggregate.user is not None:
            kind = type(aggregate.user)
            if kind.merge is not UserAggregate.merge:
                state = state_type(aggregate.user.state, str(aggregate))
                tried_aggregates[name] = replace(aggregate, user=_TriedMerge(aggregate.user, state))
            elif kind.remove is not UserAggregate.remove:
                tried_aggregates[name] = replace(aggregate, user=_TriedRemove(aggregate.user))
    return dict(aggregates) | tried_aggregates if tried_aggregates else {}


class _Tried(UserAggregate):
    """Keeps the values themselves, and gives the result of all after it was tried in other ways."""

    def __init__(self, user: UserAggregate) -> None:
        self.user = user

    def zero(self) -> Any:
        return pickle.dumps([])

    def add(self, state: Any, value: Any) -> Any:
        return pickle.dumps([*_values(state), value])

    def folded(self, values: Sequence[Any]) -> Any:
        """Return the state of these values."""
        return self.folded_on(self.user.zero(), values)

    def folded_on(self, state: Any, values: Sequence[Any]) -> Any:
        """Return the state after more values."""
        state = copy.deepcopy(state)
        for value in values:
            state = self.stored(self.user.add(state, copy.deepcopy(value)))
        return state

    def stored(self, state: Any) -> Any:
        """Return a state as it is read back."""
        return state

    def tried(self, method: str, how: str, step: Callable[[], Any]) -> Any:
        """Return what a step gives that only `method` can make fail. Raises `BrokenMerge` if it raises."""
        try:
            return step()
        except Exception as error:  # noqa: BLE001 -- of the user's code: whatever it raises
            raise BrokenMerge(
                f"{method}() of {type(self.user).__name__} fails where add() does not: {how} raises\n"
                f"{user_traceback(error)}"
            ) from None

    def require_equal(self, method: str, expected: Any, state: Any, values: Sequence[Any], how: str) -> None:
        """Raise `BrokenMerge` unless the result of a state is the expected one."""
        got = self.tried(method, f"{how} then result()", lambda: self.user.result(state))
        if not _is_near(expected, got, _NEAR * max((abs(number) for number in _numbers(values)), default=0.0)):
            rule = {
                "merge": "merge(a, b) returns the state of all values of a, then all of b, and zero() on either side "
                "changes nothing; of an estimate, which depends on what is merged, give exact_merge=False",
                "remove": "remove(state, value) returns the state as if its oldest value had never been added",
            }
            raise BrokenMerge(
                f"{method}() of {type(self.user).__name__} is not what add() says: {how} gives {got!r}, and add() of "
                f"{_short(values)} gives {expected!r}. {rule[method]}"
            )


class _TriedMerge(_Tried):
    state = "binary"

    def __init__(self, user: UserAggregate, kind: pa.DataType) -> None:
        super().__init__(user)
        self._kind = kind

    def stored(self, state: Any) -> Any:
        return python_values(pa.array([state], self._kind))[0]

    def merge(self, a: Any, b: Any) -> Any:
        return pickle.dumps([*_values(a), *_values(b)])

    def result(self, state: Any) -> Any:
        values = _values(state)
        expected = self.user.result(self.folded(values))
        for first, second in combinations_with_replacement(_places(len(values)), 2):
            parts = values[:first], values[first:second], values[second:]
            states = [self.folded(part) for part in parts]
            shown = [*map(_short, parts)]
            both = f"merge() of {shown[0]} and {shown[1]},"
            merged = self._merged(states[0], states[1], both, values[:second])
            how = f"{both} then add() of {shown[2]},"
            added = self.tried("merge", how, partial(self.folded_on, merged, parts[2]))
            self.require_equal("merge", expected, added, values, how)
            how = f"{both} then of {shown[2]},"
            self.require_equal("merge", expected, self._merged(merged, states[2], how, values), values, how)
        return expected

    def _merged(self, a: Any, b: Any, how: str, values: Sequence[Any]) -> Any:
        """Return the state of both, which are of these values."""

        def merge() -> Any:
            return self.stored(self.user.merge(copy.deepcopy(a), copy.deepcopy(b)))

        merged = self.tried("merge", how, merge)
        if merged is None and self.folded(values) is not None:
            raise BrokenMerge(
                f"merge() of {type(self.user).__name__} returns None: {how} whose states are {a!r} and {b!r}. It "
                "must return the state of both"
            )
        return merged


class _TriedRemove(_Tried):
    state = None

    def result(self, state: Any) -> Any:
        values = _values(state)
        for place in _places(len(values)):
            expected = self.user.result(self.folded(values[place:]))
            how = f"add() of {_short(values)}, then remove() of {_short(values[:place])},"
            slid = self.tried("remove", how, partial(self._removed, self.folded(values), values[:place]))
            self.require_equal("remove", expected, slid, values[place:], how)
        return self.user.result(self.folded(values))

    def _removed(self, state: Any, values: Sequence[Any]) -> Any:
        for value in values:
            state = self.user.remove(state, copy.deepcopy(value))
        return state


def _values(state: bytes) -> list[Any]:
    values: list[Any] = pickle.loads(state)  # noqa: S301 -- what `add` has written
    return values


def _places(n: int) -> list[int]:
    """Return where values are split: everywhere, or of many at some places, both ends among them."""
    return sorted({round(place * n / min(n, _MOST_PLACES)) for place in range(min(n, _MOST_PLACES) + 1)}) if n else [0]


def _short(values: Sequence[Any]) -> str:
    return repr(list(values)) if len(values) <= _MOST_PLACES else f"[{values[0]!r}, ... {len(values)} values]"


def _numbers(values: Any) -> Iterator[float]:
    for value in values:
        if isinstance(value, int | float) and math.isfinite(value):
            yield float(value)


def _is_near(a: Any, b: Any, apart: float) -> bool:
    """Whether two results are the same; floats, also within lists and dicts, may be apart a little."""
    if isinstance(a, float) and isinstance(b, int | float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=_NEAR, abs_tol=apart)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(
            _is_near(a_member, b_member, apart) for a_member, b_member in zip(a, b, strict=True)
        )
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_is_near(a[name], b[name], apart) for name in a)
    return bool(a == b)
