# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""Aggregates that the user writes: a Python loop, one value at a time.

The state of a cell is an Arrow value, never a pickle: it can be read without the user's code and after a change of it,
and opening a checkpoint runs no code of the user.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import Ints, Values, combine
from panekeeper.framework.core.aggregates.protocol import Accumulator, ContentAggregate, State, fold_changed_cells
from panekeeper.framework.core.aggregates.ranges import PartialColumns, merge_ranges
from panekeeper.framework.declarations.arrow_types import python_values, require_nothing_cut_off
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.user_aggregate import UserAggregate
from panekeeper.state.user_values import snapshot


@dataclass(frozen=True, kw_only=True)
class UserContentAggregate(ContentAggregate):
    """A user aggregate without `merge`: each firing adds all its rows again."""

    user: UserAggregate

    @property
    def runs_user_code(self) -> bool:
        return True

    def from_content(self, rows: pa.Table, offsets: Ints) -> pa.Array:
        values = python_values(combine(rows.column(self.inputs[0])))
        results = []
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            state = self.user.zero()
            for value in values[start:end]:
                if value is not None:
                    state = self.user.add(state, value)
            results.append(self.user.result(state))
        return _column(self.user, "result()", results, self.output)

    def from_ranges(self, rows: pa.Table, lo: Ints, hi: Ints) -> pa.Array:
        if type(self.user).remove is UserAggregate.remove:
            return super().from_ranges(rows, lo, hi)
        column = combine(rows.column(self.inputs[0]))
        values, own = python_values(column), _owned(column.type)  # a state may be a value: it is not to change with it
        results: list[Any] = [None] * len(lo)
        state, low, high = self.user.zero(), 0, 0
        for at in np.lexsort((hi, lo)).tolist():
            start, end = int(lo[at]), int(hi[at])
            if not (low <= start <= high <= end):
                state, low, high = self.user.zero(), start, start
            for value in values[low:start]:
                state = state if value is None else self.user.remove(state, own(value))
            for value in values[high:end]:
                state = state if value is None else self.user.add(state, own(value))
            low, high = start, end
            results[at] = snapshot(self.user.result(state))  # it may be the state, which slides on
        return _column(self.user, "result()", results, self.output)


@dataclass(frozen=True, kw_only=True)
class UserPartialAggregate(Accumulator):
    """A user aggregate with `merge`. State: the user's own, as an Arrow value.

    After each row the state is what it would be if a micro-batch ended there: where it is cut makes no difference.
    """

    user: UserAggregate
    kind: pa.DataType
    own: Callable[[Any], Any] = field(init=False, repr=False, compare=False)
    is_as_stored: Callable[[Any], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # merge() may change and return an argument; a nested state is shared by overlapping ranges, so it gets a copy.
        object.__setattr__(self, "own", _owned(self.kind))
        object.__setattr__(self, "is_as_stored", as_stored(self.kind))

    @property
    def runs_user_code(self) -> bool:
        return True

    def state_types(self) -> list[pa.DataType]:
        return [self.kind]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        return fold_changed_cells(self._fold, self.with_empty_columns(state), cells, n_cells, rows, seq)

    def _fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        states = python_values(state[0])
        states.extend(self._stored(self.user.zero()) for _ in range(n_cells - len(states)))
        for cell, value in zip(cells.tolist(), python_values(combine(rows.column(self.inputs[0]))), strict=True):
            if value is not None:
                states[cell] = self._stored(self.user.add(states[cell], value))
        return [_column(self.user, "the state", states, self.kind)]

    def _stored(self, value: Any) -> Any:
        if value is None or self.is_as_stored(value):
            return value
        return python_values(_column(self.user, "the state", [value], self.kind))[0]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        level = _objects(python_values(self.with_empty_columns(state)[0]))
        (merged,) = merge_ranges((level,), lo, hi, empty=(_MISSING,), merge=self._merged, within=True)
        states = [self.user.zero() if state is _MISSING else state for state in merged]
        return [_column(self.user, "the state", states, self.kind)]

    def _merged(self, left: PartialColumns, right: PartialColumns) -> PartialColumns:
        return (_objects([self._merged_pair(a, b) for a, b in zip(left[0], right[0], strict=True)]),)

    def _merged_pair(self, earlier: Any, later: Any) -> Any:
        if earlier is _MISSING or later is _MISSING:
            return later if earlier is _MISSING else earlier
        return self.user.merge(self.own(earlier), self.own(later))

    def finish(self, state: State) -> pa.Array:
        results = [self.user.result(state) for state in python_values(self.with_empty_columns(state)[0])]
        return _column(self.user, "result()", results, self.output)


_MISSING: Any = object()
"""Stands for a range without a cell; not `zero()`, so merging does not depend on how neutral that is."""


def _owned(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes a copy of a value that can be changed."""
    return copy.deepcopy if pa.types.is_nested(kind) else lambda value: value


def as_stored(kind: pa.DataType) -> Callable[[Any], bool]:
    """Return what says whether a value of Python is read back as it is, once it was stored as a type.

    False: it is another one then (of an integer, a float), or does not fit, or only Arrow can say.

    >>> as_stored(pa.int8())(127), as_stored(pa.int8())(128), as_stored(pa.list_(pa.float64()))([1.5, 2])
    (True, False, False)
    """
    if pa.types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        parts = [as_stored(kind.field(place).type) for place in range(kind.num_fields)]
        return lambda value: (
            type(value) is dict
            and list(value) == names
            and all(item is None or fits(item) for fits, item in zip(parts, value.values(), strict=True))
        )
    if pa.types.is_list(kind):
        type_, within, fits = *_plain(kind.value_type), as_stored(kind.value_type)
        return lambda value: (
            type(value) is list
            and (
                (set(map(type, value)) == {type_} and within(value))  # much faster than one after the other
                or all(item is None or fits(item) for item in value)
            )
        )
    type_, within = _plain(kind)
    return lambda value: type(value) is type_ and within([value])


def _plain(kind: pa.DataType) -> tuple[type | None, Callable[[list[Any]], bool]]:
    """Return the type of Python whose values a plain type takes as they are, and whether it takes all of some."""
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1 if pa.types.is_signed_integer(kind) else 2**kind.bit_width - 1
        least = -most - 1 if pa.types.is_signed_integer(kind) else 0
        return int, lambda values: least <= min(values) and max(values) <= most
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str, lambda values: "".join(values).isascii()
    if pa.types.is_boolean(kind) or kind == pa.float64() or kind in (pa.binary(), pa.large_binary()):
        return {pa.bool_(): bool, pa.float64(): float}.get(kind, bytes), lambda _: True
    return None, lambda _: False


def _objects(values: list[Any]) -> Values:
    """Return an array of objects, also if the objects are lists."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def _column(user: UserAggregate, what: str, values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        require_nothing_cut_off(values, kind)
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        name = type(user).__name__
        raise InputError(f"agg.user({name}): {what} does not fit the declared type {kind}: {error}") from error
