# ruff: noqa: D102 -- what these methods mean is said once, in protocol.py
"""agg.expr: an expression over other aggregates, each of which it has as its own part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.aggregates.columns import (
    FLOAT64,
    Bools,
    Floats,
    Ints,
    canonical_nan,
    raw_values,
    valid_mask,
)
from panekeeper.framework.core.aggregates.protocol import OfParts, PartRows, State
from panekeeper.framework.declarations.expressions import Term


@dataclass(frozen=True, kw_only=True)
class OfOthers(OfParts):
    """The value of a term, computed from the results of its parts as doubles. State: the columns of all parts."""

    term: Term

    def state_types(self) -> list[pa.DataType]:
        return [kind for part in self.parts for kind in part.state_types()]

    def fold(self, state: State, cells: Ints, n_cells: int, rows: pa.Table, seq: Ints) -> State:
        folded = (
            part.fold(own, cells, n_cells, rows, seq) for part, own in zip(self.parts, self._each(state), strict=True)
        )
        return [column for own in folded for column in own]

    def fold_parts(self, begun: State, offsets: Ints, rows: PartRows) -> State:
        pairs = zip(self.parts, self._each(begun), strict=True)
        return [column for part, own in pairs for column in part.fold_parts(own, offsets, rows)]

    def merge_ranges(self, state: State, lo: Ints, hi: Ints) -> State:
        merged = (part.merge_ranges(own, lo, hi) for part, own in zip(self.parts, self._each(state), strict=True))
        return [column for own in merged for column in own]

    def merge(self, state: State, later: State, cells: Ints, n_cells: int) -> State:
        pairs = zip(self.parts, self._each(state), self._each(later), strict=True)
        return [column for part, own, more in pairs for column in part.merge(own, more, cells, n_cells)]

    def finish(self, state: State) -> pa.Array:
        state = self.with_empty_columns(state)
        results = [_doubles(part.finish(own)) for part, own in zip(self.parts, self._each(state), strict=True)]
        with np.errstate(all="ignore"):
            values, known = _value(self.term, results, len(state[0]))
        shown = values != 0 if pa.types.is_boolean(self.output) else canonical_nan(values)
        return pa.array(shown, mask=~known)

    def _each(self, state: State) -> list[State]:
        """Return the state of each part."""
        parts: list[State] = []
        for part in self.parts:
            begin = sum(map(len, parts))
            parts.append(state[begin : begin + len(part.state_types())])
        return parts


Known = tuple[Floats, Bools]
"""Numbers, of conditions 1 and 0, and which of them are not null."""


def _doubles(results: pa.Array) -> Known:
    values = results.cast(pa.int8()) if pa.types.is_boolean(results.type) else results
    return raw_values(values.cast(FLOAT64, safe=False)), valid_mask(results)


def _value(term: Term, results: list[Known], n: int) -> Known:
    """Return the value of a term for each cell; null where one it needs is, and where it divides by 0."""
    if term.name == "part":
        return results[int(term.value)]
    if term.name == "number":
        return np.full(n, float(term.value)), np.ones(n, dtype=np.bool_)
    terms = [_value(inner, results, n) for inner in term.terms]
    values, known = terms[0]
    if term.name in _OF_ANY_NUMBER:
        for more, others in terms[1:]:
            values, known = _OF_ANY_NUMBER[term.name](values, known, more, others)
        return values, known
    for _, others in terms[1:]:
        known = known & others
    result: Floats = _FUNCTIONS[term.name](*(values for values, _ in terms)).astype(np.float64)
    if term.name in ("/", "%"):
        known = known & (terms[1][0] != 0)
    return result, known


def _equal(a: Floats, b: Floats) -> Bools:
    """Return which numbers are equal; NaN is itself."""
    same: Bools = (a == b) | (np.isnan(a) & np.isnan(b))
    return same


def _less(a: Floats, b: Floats) -> Bools:
    """Return which numbers are less than the others; NaN is greater than every number."""
    less: Bools = (a < b) | (np.isnan(b) & ~np.isnan(a))
    return less


def _first_known(a: Floats, is_a: Bools, b: Floats, is_b: Bools) -> Known:
    return np.where(is_a, a, b), is_a | is_b


def _least(a: Floats, is_a: Bools, b: Floats, is_b: Bools) -> Known:
    return np.where(is_a & (~is_b | (a <= b) | np.isnan(b)), a, b), is_a | is_b


def _greatest(a: Floats, is_a: Bools, b: Floats, is_b: Bools) -> Known:
    return np.where(is_a & (~is_b | (a >= b) | np.isnan(a)), a, b), is_a | is_b


def _nullif(a: Floats, is_a: Bools, b: Floats, is_b: Bools) -> Known:
    return a, is_a & ~(is_b & _equal(a, b))


def _and(a: Floats, is_a: Bools, b: Floats, is_b: Bools) -> Known:
    is_false = (is_a & (a == 0)) | (is_b & (b == 0))
    return np.where(is_false, 0.0, 1.0), is_false | (is_a & is_b)


def _or(a: Floats, is_a: Bools, b: Floats, is_b: Bools) -> Known:
    is_true = (is_a & (a != 0)) | (is_b & (b != 0))
    return np.where(is_true, 1.0, 0.0), is_true | (is_a & is_b)


_OF_ANY_NUMBER = {
    "coalesce": _first_known,
    "least": _least,
    "greatest": _greatest,
    "nullif": _nullif,
    "and": _and,
    "or": _or,
}
"""What may be known where one of its terms is not."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,  # the sign is that of what is divided
    "negative": np.negative,
    "not": np.logical_not,
    "=": _equal,
    "<>": lambda a, b: ~_equal(a, b),
    "<": _less,
    "<=": lambda a, b: ~_less(b, a),
    ">": lambda a, b: _less(b, a),
    ">=": lambda a, b: ~_less(a, b),
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
}
