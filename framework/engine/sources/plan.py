"""What do a stream's sources and its own plan compute, as texts that are the same in each process?

Spark's text of an operator has numbers of columns, which differ between two processes, and texts without quotes. Its
SQL for an expression has quotes and no such numbers, but only names of columns, and not the types of all functions. Its
JSON of the tree has columns and texts as they are, but no options and patterns. So a digest is of all three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from framework.engine.session.required_settings import session_settings
from framework.engine.sources.plan_tree import normal_tree
from framework.engine.sources.streams import is_kafka, leaves, options_of, path_of_files, qualified
from state.code_digest import digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTIONS_OF_NO_ROW = re.compile(
    r"paths?|max\w+pertrigger|minoffsetspertrigger|maxtriggerdelay|maxfileage|latestfirst|cleansource|sourcearchivedir"
    r"|starting\w+|failondataloss|groupidprefix|fs\..*|kafka\.(?!isolation\.level).*|fetchoffset\..*|kafkaconsumer\..*",
    re.IGNORECASE,
)
"""Options of a source that decide where it reads, and which rows the next batch gets, but not what is in a row."""
_STARTING = re.compile(r"starting\w+", re.IGNORECASE)
STARTING = "starting"
"""Name of the field of the code that says where sources begin."""
_MAX_FIELDS = "100000"  # columns, fields and values that Spark writes out of an operator or expression of a plan

# What differs between two plans of the same code: ids of expressions, objects and watermarks, seeds of random numbers,
# numbers of the variables of lambda functions.
_RANDOM = "|".join(rf"(?<=\b{name})\([^)]*\)" for name in ("rand", "randn", "random", "randstr", "uniform", "uuid"))
_VARYING = re.compile(
    r"#\d+L?|@[0-9a-f]+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    rf"|{_RANDOM}|(?<=\bCTERelation(?:Def|Ref) )\d+|(?<=\bSome)\(-?\d+\)"
)
_WITH_NUMBERS = ("Sample", "CollectMetrics")
"""Operators whose text has a seed or a number of the process at no fixed place; the tree has all else."""
_LAMBDA_NUMBER = re.compile(r"(?<=_)\d+\b")
_RANDOM_IN_SQL = re.compile(rf"('(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`)|{_RANDOM}", re.DOTALL)


_one_digest = Lock()
"""Jobs that start at the same time may share the session, and its settings."""
_known: WeakKeyDictionary[DataFrame, str] = WeakKeyDictionary()
"""Digests of plans: a start needs that of a stream for its code and for its inputs, and a plan does not change."""


def source_digest(df: DataFrame) -> str:
    """Return how sources are read, and the types of the columns: an option may decide about each value of a row.

    Of files that is also their schema, by which a reader takes their values, and the path: partition columns are in it.
    """
    sources = [*leaves(df)]
    options = [
        {name: value for name, value in options_of(leaf).items() if not OPTIONS_OF_NO_ROW.fullmatch(name)}
        for leaf in sources
    ]
    files = [
        [qualified(df.sparkSession, path), leaf.schema().json()]
        for leaf in sources
        if (path := path_of_files(leaf)) is not None
    ]
    return digest([df.schema.json(), *(sorted(one.items()) for one in options), *files])


def starting_digest(df: DataFrame) -> str:
    """Return where sources begin. A table of Delta that had no rows yet begins there anew at each start."""
    options = [
        {name: value for name, value in options_of(leaf).items() if _STARTING.fullmatch(name)}
        for leaf in leaves(df)
        if not is_kafka(leaf)  # it logs where it began
    ]
    return digest([sorted(one.items()) for one in options])


def plan_digest(df: DataFrame) -> str:
    """Return what the user's own plan does between the source and the windows; of Python functions in it, the names."""
    with _one_digest:
        if df not in _known:
            _known[df] = _plan_digest(df)
        return _known[df]


def _plan_digest(df: DataFrame) -> str:
    spark: Any = df.sparkSession
    plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 -- a plan has no public form
    with session_settings(spark, {"spark.sql.debug.maxToStringFields": _MAX_FIELDS}):
        spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001 -- of this thread, as for the setting
        return digest([normal_tree(plan.toJSON()), *_operators(plan)])


def _operators(plan: Any) -> Iterator[list[str]]:
    """Yield the operators of a plan but its sources: the same files may be elsewhere now."""
    children = plan.children()
    if children.size():
        expressions = plan.expressions()
        sql = (_sql(expressions.apply(number)) for number in range(expressions.size()))
        yield [_without_varying(plan.simpleString(int(_MAX_FIELDS))), *sql]
    for further in (plan.subqueries(), children):
        for number in range(further.size()):
            yield from _operators(further.apply(number))


def _sql(expression: Any) -> str:
    """Return the SQL of an expression, without random seeds; nothing for one that has no SQL, as an object of Java."""
    try:
        found = str(expression.sql())
    except Exception:  # noqa: BLE001 -- whatever it is; the text of the operator has the expression, too
        return ""
    return _RANDOM_IN_SQL.sub(lambda one: one[1] or "", found)


def _without_varying(line: str) -> str:
    if (name := next((one for one in _WITH_NUMBERS if line.lstrip("~").startswith(one)), None)) is not None:
        return name
    line = _VARYING.sub("", line)
    return _LAMBDA_NUMBER.sub("", line) if "lambdafunction" in line else line
