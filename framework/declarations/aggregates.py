# ruff: noqa: A001 -- sum, min, max, any and all shadow builtins on purpose: they are written agg.sum(...), as in SQL
"""Aggregates of a window: what to compute from its rows, as declarations.

    .aggregate(worst=agg.max("delay"), flight=agg.arg_max("delay", "flight"), n=agg.count())

Nulls are skipped everywhere; a window whose values are all null gives null (0 for the counts, an empty list for
`collect`). With `where=`, a SQL condition on the columns of a row, an aggregate is of the rows for which it holds, not
of those where it is null: `agg.sum("fare", where="status = 'paid'")`. Results are the same to the last bit however the
stream is split into batches, and after every restart.
Nothing here computes; the computation is in `panekeeper.framework.core.aggregates`.
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from panekeeper.framework.declarations.arrow_types import arrow_type, require_nothing_cut_off, state_type
from panekeeper.framework.declarations.calls import call_with_option, named_options
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean
from panekeeper.framework.declarations.expressions import Term, parse, unknown_function
from panekeeper.framework.declarations.methods import require_plain_methods
from panekeeper.framework.declarations.parameters import declared_parameters
from panekeeper.framework.declarations.user_aggregate import UserAggregate

__all__ = [
    "Aggregate",
    "UserAggregate",
    "all",
    "any",
    "approx_distinct",
    "arg_max",
    "arg_min",
    "bit_or",
    "collect",
    "corr",
    "count",
    "count_distinct",
    "count_if",
    "covariance",
    "expr",
    "first",
    "first_row",
    "histogram",
    "last",
    "last_row",
    "max",
    "mean",
    "min",
    "quantiles",
    "skewness",
    "stddev",
    "sum",
    "top_k",
    "top_rows",
    "user",
    "variance",
    "weighted_mean",
]


RESULT = "result"
"""Kind of the parts of an expression that stand for the aggregate of another result column."""
GROUPS = "groups"
"""Kind, and name, of the aggregate that computes others of each group within a pane."""
CONDITION = "_pk_where_"
"""With what the names of the columns begin that hold conditions."""


@dataclass(frozen=True, kw_only=True)
class Aggregate:
    """One declared aggregate; made by the functions of this module.

    Attributes:
        kind: name of the function that made it.
        columns: the columns it reads, in the order of that function's arguments.
        user: the user's own aggregate (`agg.user` only).
        output: type of its results (`agg.user` only).
        where: SQL condition of the rows that it is of; None: of all.
        options: what else the function was given, by name.
        parts: the aggregates that it is an expression over (`agg.expr` only).
        term: the expression (`agg.expr` only).
    """

    kind: str
    columns: tuple[str, ...]
    user: UserAggregate | None = None
    output: pa.DataType | None = None
    where: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    parts: tuple[Aggregate, ...] = ()
    term: Term | None = None

    def __post_init__(self) -> None:
        given: tuple[object, ...] = self.columns  # a caller without a type checker may hand over anything
        for column in given:
            if not isinstance(column, str) or not column:
                raise DeclarationError(
                    f'agg.{self.kind} takes names of columns, as agg.max("delay"), not {column!r}; what is '
                    'computed from columns needs a name first: df.withColumn("late", F.col("delay") > 15)'
                )
        where: object = self.where
        if where is not None and (not isinstance(where, str) or not where.strip()):
            raise DeclarationError(
                f'agg.{self.kind}: where is {where!r}; write the condition as SQL, such as where="delay > 15"'
            )

    if not TYPE_CHECKING:  # where a name that is not there is to stay an error

        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError` that says where a result column gets its name, or an aggregate its condition."""
            if name.startswith("_"):
                raise AttributeError(name)
            elsewhere = f".aggregate(total={self})" if name in ("alias", "name") else call_with_option(name)
            raise AttributeError(f"{self} has no {name}(){elsewhere and f'; write {elsewhere}'}")

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        arguments = [repr(column) for column in self.columns]
        if self.user is not None:
            arguments.insert(0, type(self.user).__name__)
        arguments += [f"{name}={value!r}" for name, value in self.options]
        if self.where is not None:
            arguments.append(f"where={self.where!r}")
        return f"agg.{self.kind}({', '.join(arguments)})"

    @property
    def needs_content(self) -> bool:
        """True if the window must keep its rows, because nothing smaller says enough."""
        return self.kind == "collect" or (self.user is not None and not _has_merge(self.user))

    @property
    def condition(self) -> str | None:
        """Name of the column that says of a row whether `where` holds; equal conditions share one."""
        if self.where is None:
            return None
        return CONDITION + hashlib.blake2b(self.where.encode(), digest_size=6).hexdigest()

    @property
    def conditions(self) -> dict[str, str]:
        """The conditions of it and of its parts, by the columns that say whether they hold."""
        own = {} if self.condition is None or self.where is None else {self.condition: self.where}
        return {name: where for part in self.parts for name, where in part.conditions.items()} | own

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that it and its parts are computed from, conditions last."""
        read = [*self.columns, *(column for part in self.parts for column in part.read_columns)]
        return tuple(dict.fromkeys([*(name for name in read if name not in self.conditions), *self.conditions]))

    def of_stream(self, columns: Sequence[str], find: Callable[[str], str]) -> Aggregate:
        """Return the aggregate with the columns as the stream has them.

        Args:
            columns: all of the stream, which are shown where whole rows are and none is named.
            find: returns the name of a column that was given; raises if there is none.
        """
        falling = dict(self.options).get("falling")
        shows_all = falling is not None and len(self.columns) == len(falling)
        named = tuple(map(find, self.columns))
        parts = tuple(part.of_stream(columns, find) for part in self.parts)
        return replace(self, columns=(*named, *columns) if shows_all else named, parts=parts)

    def over(self, others: Mapping[str, Aggregate]) -> Aggregate:
        """Return the aggregate with those of the result columns that its expression names in their place."""
        parts = []
        for part in self.parts:
            name = part.columns[0] if part.kind == RESULT else ""
            if part.kind == RESULT and (name not in others or others[name].parts):
                known = [other for other, aggregate in others.items() if not aggregate.parts]
                raise DeclarationError(
                    f"{self}: {name!r} is no result column of another aggregate{did_you_mean(name, known)}; write an "
                    f"aggregate, such as sum({name})"
                )
            parts.append(others[name] if part.kind == RESULT else part)
        return replace(self, parts=tuple(parts))

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint.

        >>> max("delay").declaration()
        {'kind': 'max', 'columns': ['delay']}
        """
        declared: dict[str, Any] = {"kind": self.kind, "columns": list(self.read_columns)}
        if self.where is not None:
            declared["where"] = self.where
        declared |= self.options
        if self.parts:
            declared["parts"] = [part.declaration() for part in self.parts]
        if self.user is not None:
            declared["class"] = type(self.user).__qualname__
            declared["parameters"] = declared_parameters(self.user)
            declared["output"] = str(self.output)
            declared["state"] = str(state_type(self.user.state, str(self))) if _has_merge(self.user) else None
        return declared


def count(column: str | None = None, *, where: str | None = None) -> Aggregate:
    """Count rows, as does `count("*")`; with a column, rows in which it is not null. Result: int64."""
    given: Any = column  # a Column of Spark has an == of its own
    every_row = given is None or (isinstance(given, str) and given == "*")
    return Aggregate(kind="count", columns=() if every_row else (given,), where=where)


def count_if(condition: str) -> Aggregate:
    """Count the rows for which a SQL condition holds. Result: int64.

    >>> print(count_if("delay > 15"))
    agg.count(where='delay > 15')
    """
    given: Any = condition  # None is no condition, and does not count every row
    return count(where="" if given is None else given)


def sum(column: str, *, where: str | None = None) -> Aggregate:
    """Add up integers, decimals or durations, exactly, or floats. Result: the type that Spark's `sum` has.

    It is int64 for integers, decimal(p + 10, s), of at most 38 digits, for decimal(p, s), double for floats. What does
    not fit it is null, with a row in the quarantine; what leaves it on the way and comes back is right.
    """
    return Aggregate(kind="sum", columns=(column,), where=where)


def mean(column: str, *, where: str | None = None) -> Aggregate:
    """Arithmetic mean. Result: double; of decimal(p, s) decimal(p + 4, s + 4), at most 38 digits, as Spark's `avg`."""
    return Aggregate(kind="mean", columns=(column,), where=where)


def stddev(column: str, *, where: str | None = None) -> Aggregate:
    """Sample standard deviation (divides by n - 1) of numbers; null for fewer than two values. Result: double."""
    return Aggregate(kind="stddev", columns=(column,), where=where)


def variance(column: str, *, where: str | None = None) -> Aggregate:
    """Sample variance (divides by n - 1) of numbers; null for fewer than two values. Result: double."""
    return Aggregate(kind="variance", columns=(column,), where=where)


def skewness(column: str, *, where: str | None = None) -> Aggregate:
    """How much longer the tail of greater values is than that of smaller ones, as Spark's `skewness`. Result: double.

    Null if all values are equal.
    """
    return Aggregate(kind="skewness", columns=(column,), where=where)


def covariance(x: str, y: str, *, where: str | None = None) -> Aggregate:
    """Sample covariance (divides by n - 1), of the rows in which both are not null. Result: double."""
    return Aggregate(kind="covariance", columns=(x, y), where=where)


def corr(x: str, y: str, *, where: str | None = None) -> Aggregate:
    """Pearson's correlation, from -1 to 1, of the rows in which both are not null. Result: double.

    Null if all values of one of them are equal.
    """
    return Aggregate(kind="corr", columns=(x, y), where=where)


def weighted_mean(column: str, weight: str, *, where: str | None = None) -> Aggregate:
    """Mean of a column, each value as often as its weight says, of the rows in which both are not null. Result: double.

    Null if the weights add up to 0.
    """
    return Aggregate(kind="weighted_mean", columns=(column, weight), where=where)


def any(column: str, *, where: str | None = None) -> Aggregate:
    """Whether a boolean is true in any row; null if it is null in all. Result: boolean."""
    return Aggregate(kind="any", columns=(column,), where=where)


def all(column: str, *, where: str | None = None) -> Aggregate:
    """Whether a boolean is true in all rows in which it is not null; null if there are none. Result: boolean."""
    return Aggregate(kind="all", columns=(column,), where=where)


def bit_or(column: str, *, where: str | None = None) -> Aggregate:
    """The bits that are set in any value of a column of integers. Result: the column's type."""
    return Aggregate(kind="bit_or", columns=(column,), where=where)


def max(column: str, *, where: str | None = None) -> Aggregate:
    """Largest value of any type with an order; NaN is larger than every number. Result: the column's type."""
    return Aggregate(kind="max", columns=(column,), where=where)


def min(column: str, *, where: str | None = None) -> Aggregate:
    """Smallest value of any type with an order; NaN only if there is nothing else. Result: the column's type."""
    return Aggregate(kind="min", columns=(column,), where=where)


def arg_max(by: str, value: str, *, where: str | None = None) -> Aggregate:
    """What `value` says in the row where `by` is largest; of equals the earliest arrival. May be null."""
    return Aggregate(kind="arg_max", columns=(by, value), where=where)


def arg_min(by: str, value: str, *, where: str | None = None) -> Aggregate:
    """What `value` says in the row where `by` is smallest; of equals the earliest arrival. May be null."""
    return Aggregate(kind="arg_min", columns=(by, value), where=where)


def first(column: str, *, where: str | None = None) -> Aggregate:
    """The value that arrived first; any type."""
    return Aggregate(kind="first", columns=(column,), where=where)


def last(column: str, *, where: str | None = None) -> Aggregate:
    """The value that arrived last; any type."""
    return Aggregate(kind="last", columns=(column,), where=where)


def collect(column: str, *, where: str | None = None) -> Aggregate:
    """All values as a list, in arrival order; any type. The window keeps its rows for this.

    >>> collect("gate").needs_content
    True
    """
    return Aggregate(kind="collect", columns=(column,), where=where)


def approx_distinct(column: str, *, where: str | None = None) -> Aggregate:
    """Number of distinct values that are not null. Result: int64.

    It is exact below 1,024 values. From there it is an estimate with a standard error of 3.1 %: two of three results
    are within 3 %, all but one in a thousand within 10 %.
    """
    return Aggregate(kind="approx_distinct", columns=(column,), where=where)


def top_k(
    column: str, *, k: int, by: Literal["count"] = "count", at_most: int = 100_000, where: str | None = None
) -> Aggregate:
    """The most frequent values, each with its number of rows. Result: an array of structs of the value and `count`.

    Args:
        column: of numbers, decimals, booleans, dates, times, texts or binaries.
        k: how many values, at least 1; of equally frequent ones the smaller comes first.
        by: what makes a value greater than another one: `"count"`, its number of rows.
        at_most: so many distinct values are kept, and counted exactly, of each partition and slice of time, or tumble.
            A firing with more of them is null, and in the quarantine with the reason DISTINCT_OVERFLOW.
        where: as of all aggregates.

    >>> print(top_k("page", k=3))
    agg.top_k('page', k=3, at_most=100000)
    """
    _require_count("agg.top_k: k", k)
    _require_count("agg.top_k: at_most", at_most)
    if by != "count":
        raise DeclarationError(f"agg.top_k: by is {by!r}; it must be 'count'")
    return Aggregate(kind="top_k", columns=(column,), where=where, options=(("k", k), ("at_most", at_most)))


def quantiles(column: str, ranks: Sequence[float], *, exact: bool = False, where: str | None = None) -> Aggregate:
    """Values of given ranks, of 0.95 the smallest that 95 % of the values do not exceed. Result: an array of them.

    Args:
        column: of numbers; with `exact`, of any type with an order.
        ranks: numbers from 0 to 1; the result has a value of each, in this order. None if there are no values.
        exact: whether the distinct values are kept and the result has the type of the column. If not, values are
            counted in buckets, and each result, a double, is within 0.8 % of the exact one; integers from -127 to 127
            are exact. A cell has at most 64 buckets for each power of 2 that its values span.
        where: as of all aggregates.

    >>> print(quantiles("delay", [0.5, 0.99]))
    agg.quantiles('delay', ranks=(0.5, 0.99), exact=False)
    """
    given: object = ranks
    if not isinstance(given, list | tuple) or not given or not builtins.all(_is_rank(rank) for rank in given):
        raise DeclarationError(f"agg.quantiles: ranks is {ranks!r}; give numbers from 0 to 1, such as [0.5, 0.95]")
    options = (("ranks", tuple(ranks)), ("exact", bool(exact)))
    return Aggregate(kind="quantiles", columns=(column,), where=where, options=options)


def histogram(column: str, edges: Sequence[float], *, where: str | None = None) -> Aggregate:
    """How many values lie in each bin. Result: an array of int64, of one number more than there are edges.

    Args:
        column: of numbers, which are compared as doubles; NaN is greater than every edge.
        edges: rising numbers. The bins are: below the first edge, from each edge, included, to the next, and from the
            last edge on.
        where: as of all aggregates.

    >>> print(histogram("delay", [0, 15, 60]))
    agg.histogram('delay', edges=(0.0, 15.0, 60.0))
    """
    given: object = edges
    if not isinstance(given, list | tuple) or not given or not builtins.all(_is_edge(edge) for edge in given):
        raise DeclarationError(f"agg.histogram: edges is {edges!r}; give rising numbers, such as [0, 15, 60]")
    if builtins.any(a >= b for a, b in pairwise(edges)):
        raise DeclarationError(f"agg.histogram: edges is {edges!r}; each must be greater than the one before")
    options = (("edges", tuple(map(float, edges))),)
    return Aggregate(kind="histogram", columns=(column,), where=where, options=options)


def top_rows(
    *, k: int, by: str | Sequence[str], columns: Sequence[str] | None = None, where: str | None = None
) -> Aggregate:
    """The first rows by some columns, in their order; of equals the first to arrive. Result: an array of structs.

    Args:
        k: how many rows, at least 1.
        by: the columns as `ORDER BY` has them: `"price desc"`, `"price desc, at"`, or a list of such. Rows in which one
            of them is null do not take part; NaN is larger than every number.
        columns: the columns of a row that are shown; None: all of the stream.
        where: as of all aggregates.

    >>> print(top_rows(k=3, by="price desc", columns=["seller"]))
    agg.top_rows('price', 'seller', k=3, falling=(True,))
    """
    _require_count("agg.top_rows: k", k)
    return _rows("top_rows", k, by, columns, where)


def first_row(*, by: str | Sequence[str], columns: Sequence[str] | None = None, where: str | None = None) -> Aggregate:
    """The row in which `by` is smallest; of equals the first to arrive. Arguments as of `top_rows`. Result: a struct.

    >>> print(first_row(by="at", columns=["gate"]))
    agg.first_row('at', 'gate', k=1, falling=(False,))
    """
    return _rows("first_row", 1, by, columns, where)


def last_row(*, by: str | Sequence[str], columns: Sequence[str] | None = None, where: str | None = None) -> Aggregate:
    """The row in which `by` is largest; of equals the first to arrive. Arguments as of `top_rows`. Result: a struct.

    >>> print(last_row(by="at", columns=["gate"]))
    agg.last_row('at', 'gate', k=1, falling=(True,))
    """
    return _rows("last_row", 1, by, columns, where)


def _rows(kind: str, k: int, by: object, columns: object, where: str | None) -> Aggregate:
    parts = by.split(",") if isinstance(by, str) else by
    if not isinstance(parts, list | tuple) or not parts or not builtins.all(isinstance(part, str) for part in parts):
        raise DeclarationError(f'agg.{kind}: by is {by!r}; write it as ORDER BY does, such as "price desc"')
    if columns is not None and (not isinstance(columns, list | tuple) or not columns):
        raise DeclarationError(f'agg.{kind}: columns is {columns!r}; give a list of names, such as ["price", "seller"]')
    words = [part.split() for part in parts]
    directions = [term[-1].lower() if len(term) > 1 and term[-1].lower() in ("asc", "desc") else "" for term in words]
    names = [" ".join(term[:-1] if way else term) for term, way in zip(words, directions, strict=True)]
    shown = list(columns or ())
    for given in (names, shown):
        for name in given:
            if given.count(name) > 1:
                raise DeclarationError(f"agg.{kind} names the column {name!r} twice; leave one of them out")
    falling = tuple((way == "desc") != (kind == "last_row") for way in directions)
    return Aggregate(kind=kind, columns=(*names, *shown), where=where, options=(("k", k), ("falling", falling)))


def count_distinct(
    column: str,
    *,
    at_most: int = 100_000,
    beyond: Literal["quarantine", "approximate"] = "quarantine",
    where: str | None = None,
) -> Aggregate:
    """Number of distinct values that are not null, exact. Result: int64.

    Args:
        column: of numbers, decimals, booleans, dates, times, texts or binaries.
        at_most: so many distinct values are kept of each partition and slice of time, or tumble. At least 1.
        beyond: what is done about a firing with more of them. `"quarantine"`: its result is null, and it is in the
            quarantine with the reason DISTINCT_OVERFLOW. `"approximate"`: the result is an estimate, with a standard
            error of 1 / sqrt(at_most), which is 0.3 % of 100,000.
        where: as of all aggregates.

    >>> print(count_distinct("user", at_most=1000))
    agg.count_distinct('user', at_most=1000, beyond='quarantine')
    """
    _require_count("agg.count_distinct: at_most", at_most)
    if beyond not in ("quarantine", "approximate"):
        raise DeclarationError(f"agg.count_distinct: beyond is {beyond!r}; it must be 'quarantine' or 'approximate'")
    options = (("at_most", at_most), ("beyond", beyond))
    return Aggregate(kind="count_distinct", columns=(column,), where=where, options=options)


def expr(expression: str, *, where: str | None = None) -> Aggregate:
    """An expression over aggregates: `"sum(a) / sum(b)"`, `"total / n"`, `"count(where='late') / count() > 0.1"`.

    It takes aggregates of numbers or booleans as calls, with the arguments that they have here, and the names of other
    result columns; numbers; `+ - * / %`, `< <= > >= == <>`, `and or not`; `abs sqrt floor ceil nullif coalesce least
    greatest`. It is computed in doubles, and is null where a part is null, or where it divides by 0. Result: double, or
    boolean.

    Args:
        expression: the expression.
        where: as of all aggregates; a part may have one of its own beside it.

    Raises:
        DeclarationError: it is no such expression.

    >>> print(expr("sum(price) / nullif(sum(volume), 0)"))
    agg.expr(expression='sum(price) / nullif(sum(volume), 0)')
    """
    parts: list[Aggregate] = []

    def part(name: str, arguments: list[Any], options: dict[str, Any]) -> int:
        if "result" in options:
            made = Aggregate(kind=RESULT, columns=(name,))
        else:
            known = [function for function in __all__ if function[0].islower() and function not in ("user", "expr")]
            name = _OTHER_NAMES.get(name, name)
            if name not in known:
                raise unknown_function(expression, name, known)
            try:
                made = globals()[name](*arguments, **options)
            except DeclarationError as error:
                raise DeclarationError(f"agg.expr({expression!r}): {error}") from None
        if made not in parts:
            parts.append(made)
        return parts.index(made)

    term = parse(expression, part)
    if not parts:
        raise DeclarationError(f'agg.expr({expression!r}) has no aggregate; write one such as "sum(a) / sum(b)"')
    options = (("expression", expression),)
    return Aggregate(kind="expr", columns=(), where=where, options=options, parts=tuple(parts), term=term)


def of_groups(
    aggregates: Mapping[str, Aggregate], group_within: object, top: object, by: object, partition_by: Sequence[str]
) -> Aggregate:
    """Return what `.aggregate(..., group_within=)` computes: aggregates of each group within a pane, with ranks.

    Raises:
        DeclarationError: as `.aggregate()`.
    """
    columns = [group_within] if isinstance(group_within, str) else group_within
    if not isinstance(columns, list | tuple) or not columns or not builtins.all(isinstance(c, str) for c in columns):
        raise DeclarationError(f'group_within is {group_within!r}; give names of columns, such as ["supplier"]')
    for name in columns:
        if name in partition_by:
            raise DeclarationError(f"group_within: {name!r} is a partition column, of which a pane has one value")
        if columns.count(name) > 1:
            raise DeclarationError(f"group_within names the column {name!r} twice; leave one of them out")
    if top is not None:
        _require_count("top", top)
    if by is None and top is not None:
        raise DeclarationError(f'top is {top!r} without by; say by which result, such as by="total desc"')
    words = by.split() if isinstance(by, str) else [] if by is None else [""]
    falls = len(words) > 1 and words[-1].lower() == "desc"
    name = " ".join(words[:-1] if len(words) > 1 and words[-1].lower() in ("asc", "desc") else words)
    if by is not None and name not in aggregates:
        example = f"{next(iter(aggregates))} desc"
        raise DeclarationError(f"by is {by!r}; give a result column, with desc for the greatest first: {example!r}")
    for result, aggregate in aggregates.items():
        if aggregate.needs_content:
            raise DeclarationError(f"aggregate {result}={aggregate} needs the rows themselves; groups have none")
    options = (("names", tuple(aggregates)), ("top", top), ("by", name if by is not None else None), ("falls", falls))
    parts = tuple(part.over(aggregates) for part in aggregates.values())
    return Aggregate(kind=GROUPS, columns=tuple(columns), parts=parts, options=options)


def user(aggregate: UserAggregate, column: str, output: Any = "double", *, where: str | None = None) -> Aggregate:
    """Your own aggregate over a column; see `UserAggregate` for what to write.

    Args:
        aggregate: an instance; it is sent to the workers. Plain attributes of it (numbers, texts, lists of them)
            count as part of the declaration, so changing one needs a new checkpoint.
        column: the values that `add` gets, as Python objects.
        output: type of what `result` returns: a type of Arrow or Spark, the name of one, such as `"double"`,
            `"bigint"` or `"array<string>"`, or a Python type.
        where: as of all aggregates.

    >>> class Product(UserAggregate):
    ...     def zero(self): return 1.0
    ...     def add(self, state, value): return state * value
    ...     def result(self, state): return state
    >>> user(Product(), "growth").needs_content
    True
    """
    if not isinstance(aggregate, UserAggregate):
        raise DeclarationError(f"agg.user: {aggregate!r} must be an instance of a subclass of agg.UserAggregate")
    aggregate_text = f"agg.user({type(aggregate).__name__}, {column!r})"
    for method in ("zero", "add", "result"):
        if getattr(type(aggregate), method) is getattr(UserAggregate, method):
            raise DeclarationError(f"{aggregate_text}: the class does not define {method}()")
    require_plain_methods(aggregate, UserAggregate, "return the state or the result")
    if _has_merge(aggregate):
        _require_zero(aggregate, state_type(aggregate.state, aggregate_text), aggregate_text)
    return Aggregate(
        kind="user",
        columns=(column,),
        user=aggregate,
        output=arrow_type(output, aggregate_text, "output"),
        where=where,
    )


_OTHER_NAMES = {
    "avg": "mean",
    "average": "mean",
    "std": "stddev",
    "stddev_samp": "stddev",
    "var": "variance",
    "var_samp": "variance",
    "cov": "covariance",
    "covar_samp": "covariance",
    "bool_or": "any",
    "percentile": "quantiles",
    "percentile_approx": "quantiles",
    "approx_percentile": "quantiles",
    "median": "quantiles",
    "mode": "top_k",
    "approx_top_k": "top_k",
    "histogram_numeric": "histogram",
    "some": "any",
    "bool_and": "all",
    "every": "all",
    "max_by": "arg_max",
    "min_by": "arg_min",
    "collect_list": "collect",
    "array_agg": "collect",
    "size": "count",
    "nunique": "count_distinct",
    "countDistinct": "count_distinct",
    "approx_count_distinct": "approx_distinct",
    "first_value": "first",
    "last_value": "last",
}
"""What Spark and pandas call an aggregate -> its name here."""


for _name in __all__:
    if _name[0].islower():
        globals()[_name] = named_options(globals()[_name])


_CALL = re.compile(r"Column<'(\w+)\((.*)\)(?: AS \w+)?'>", re.DOTALL)
"""How Spark shows a column that calls a function; a count of distinct values as a count."""


def refusal_of_aggregate(given: object, hint: str = "") -> str:
    """Return what was given in place of an aggregate, and which to use: as the end of a sentence, with a hint in it.

    The aggregate is found by its name, its function or a column of Spark.

    >>> refusal_of_aggregate("avg"), refusal_of_aggregate(3)
    ("'avg'; use agg.mean('column')", "3; use an aggregate such as agg.max('column')")
    """
    is_column, called = type(given).__name__ == "Column", None
    name, column = given if isinstance(given, str) else str(getattr(given, "__name__", "")), "column"
    if is_column and (called := _CALL.fullmatch(str(given))):
        name, column = called[1], called[2]
    elif is_column:
        name = ""
    if meant := _aggregate_call(_OTHER_NAMES.get(name, name), column):
        return f"{given!r}; use {meant}"
    computes = called is not None or callable(given)
    shown = f"the function {name}()" if computes and name else "a column of Spark" if is_column else repr(given)
    own = ", or agg.user() with a subclass of agg.UserAggregate" * (computes or isinstance(given, UserAggregate))
    return f"{shown}; use an aggregate such as agg.max('column'){own}{hint}"


def _aggregate_call(name: str, column: str) -> str:
    """Return the call of an aggregate; empty if there is none of that name."""
    if name not in __all__ or not name[:1].islower():
        return ""
    if name == "count" and column in ("column", "1", "*"):
        return "agg.count()"
    takes_column = [*inspect.signature(globals()[name]).parameters][:1] == ["column"]
    if not (takes_column and re.fullmatch(r"\w+", column)):
        return f"agg.{name}(...)"
    distinct = f", or agg.count_distinct({column!r})" * (name == "count")  # which Spark shows alike
    return f"agg.{name}({column!r}){distinct}"


def __getattr__(name: str) -> Any:
    """Raise `AttributeError` that names the aggregate that was meant."""
    if name.startswith("__"):
        raise AttributeError(name)
    names = [function for function in __all__ if function[0].islower()]
    hint = f"; did you mean {_OTHER_NAMES[name]!r}?" if name in _OTHER_NAMES else did_you_mean(name, names)
    only = f", only {', '.join(names)}."
    raise AttributeError(
        f"agg has no {name!r}{hint or only} Any other aggregate is a subclass of agg.UserAggregate, given to agg.user()"
    )


def _is_edge(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and isfinite(given)


def _is_rank(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1


def _require_count(what: str, given: object) -> None:
    """Refuse what is no whole number of 1 or more."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise DeclarationError(f"{what} is {given!r}; it must be a whole number of 1 or more")


def _require_zero(aggregate: UserAggregate, kind: pa.DataType, aggregate_text: str) -> None:
    """Refuse a zero() that cannot be stored: a cell whose values are all null would fail the batch."""
    try:
        zero = [aggregate.zero()]
        require_nothing_cut_off(zero, kind)
        pa.array(zero, kind)
    except Exception as error:
        raise DeclarationError(f"{aggregate_text}: zero() gives no state of the type {kind}: {error}") from error


def _has_merge(aggregate: UserAggregate) -> bool:
    return type(aggregate).merge is not UserAggregate.merge
