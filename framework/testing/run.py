"""`run`: plays a script through a declared window, one micro-batch after the other, in memory or on Spark.

Each item of a script is one micro-batch, on both engines: its number is the place of the item. So a firing says by its
`batch` what it follows from, and the state handlers have the same checkpoints.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean
from panekeeper.framework.declarations.operator import Operator
from panekeeper.framework.declarations.windows import Window
from panekeeper.framework.testing.results import Results
from panekeeper.framework.testing.script import Clock, Flush, Restart, Watermark, rows_table
from panekeeper.framework.testing.scripted_job import ScriptBatch, ScriptedJob, ScriptPort

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from panekeeper.framework.builder.outputs import Computation

_OF_PORTS = {"window", "schema"}
_COMPUTED = ("aggregates", "operator", "join", "join_within")
"""What says what is computed: one of them."""
_DICTS = {
    "aggregates": '{"n": agg.count()}',
    "join": '{"how": "left"}',
    "join_within": '{"before": "5 minutes", "after": 0}',
    "ports": '{"orders": {"window": Tumbling(Count(2))}}',
    "windows": '{"day": TimeInterval("1 day")}',
}
"""What is given as a dict, with an example."""


def run(  # noqa: PLR0913 -- all by keyword but the window
    window: Window | None = None,
    *,
    script: Sequence[Any],
    schema: Any = None,
    aggregates: Mapping[str, Aggregate] | Mapping[str, Mapping[str, Any]] | None = None,
    operator: Operator | None = None,
    join: Mapping[str, Any] | None = None,
    join_within: Mapping[str, Any] | None = None,
    ports: Mapping[str, Mapping[str, Any]] | None = None,
    windows: Mapping[str, Window] | None = None,
    engine: Literal["memory", "spark"] = "memory",
    spark: SparkSession | None = None,
    allow_errors: bool = False,
    **options: Any,
) -> Results:
    """Play a script through a window, and return the rows of its log.

    Each item of the script is one micro-batch: a list of rows, `Clock("1 minute")`, `Watermark(30)` or `Restart()`, and
    `Flush()` as the last one. The job starts with the first item. A row is a dict; a column that it leaves out is null.
    Times are seconds since the epoch, datetimes, or ISO text. Rows arrive when the wall clock says, which begins at the
    epoch and goes on only by `Clock`. In memory a list may have `Clock` and `Watermark` among its rows, with one input:
    all of it happens in one micro-batch.

    Without a `Watermark` in the script the watermark follows the rows, as in a job: it is the greatest event time of
    the micro-batches before, less the `watermark=` of the stream. One more micro-batch at the end fires what is
    complete then.

    Args:
        window: any window.
        script: what happens, in order.
        schema: the columns of the rows: `"k string, t timestamp, v long"`, names with types, or a schema of Arrow or
            Spark.
        aggregates: result column -> aggregate, as `.aggregate()` takes them.
        operator: handles the events, in place of aggregates.
        join: the arguments of `ports(...).join()`, in place of aggregates or an operator.
        join_within: those of `ports(...).join_within()`, whose ports have no window.
        ports: several inputs of one operator or join, in place of `window`: name -> its `window`, and its own `schema`
            and arguments of `windowed()`, where it has others than the rest. Rows in the script are then a dict of
            lists, `{"orders": [...], "quotes": [...]}`.
        windows: several windows on the rows of one input, in place of `window`: name -> window. `aggregates` are those
            of all of them, or name -> those of each.
        engine: `"memory"` runs without Java, `"spark"` as a real job into Delta tables.
        spark: the session to run on; `panekeeper.session()` if not given. Only for `engine="spark"`.
        allow_errors: whether a function of yours may raise: the quarantine has it then, as in a job.
        **options: further arguments of `windowed()` (`partition_by`, `event_time`, `watermark`, ...), and of
            `.aggregate()` or `.operator()` (`output`, `listeners`, `handlers`).

    Returns:
        The rows of the log, in order, with `quarantine`, `counts` and `watermark`; of several windows, with those of
        each as `windows`.

    Raises:
        AssertionError: an operator, an aggregate or a listener of yours raised, and not `allow_errors`; the message has
            its traceback.
        DeclarationError: a declaration that a job would refuse, a row that does not fit the schema, or an item of the
            script that is none.
        InputError: with `on_error="fail"`, the first row or firing that cannot be computed.
        Exception: what a state handler or a policy of yours raised.

    Examples:
        >>> from panekeeper import TimeInterval, agg
        >>> rows = run(
        ...     TimeInterval("10 seconds"),
        ...     aggregates={"total": agg.sum("v")},
        ...     schema="t timestamp, v long",
        ...     event_time="t",
        ...     script=[[{"t": 1, "v": 2}], [{"t": 12, "v": 3}]],
        ... )
        >>> [(row["batch"], row["total"]) for row in rows]
        [(2, 2)]
    """
    if engine not in ("memory", "spark"):
        raise DeclarationError(f'engine is {engine!r}; it must be "memory" or "spark"')
    if spark is not None and engine != "spark":
        raise DeclarationError('spark is given, but the script runs in memory; give engine="spark", too')
    computed = {"aggregates": aggregates, "operator": operator, "join": join, "join_within": join_within}
    declared = with_script(
        declared_job(window, schema=schema, ports=ports, windows=windows, **computed, **options), script
    )
    __tracebackhide__ = True  # pytest shows the line of the user's test
    results = _results(declared, engine, spark)
    if not allow_errors:
        results.require_no_user_error()
    return results


def _results(declared: ScriptedJob, engine: str, spark: SparkSession | None) -> Results:
    if engine == "spark":
        from panekeeper.framework.testing.run_on_spark import run_on_spark

        return run_on_spark(declared, spark)
    from panekeeper.framework.testing.run_in_memory import run_in_memory

    return run_in_memory(declared)


def declared_job(
    window: Window | None = None,
    *,
    schema: Any = None,
    ports: Mapping[str, Mapping[str, Any]] | None = None,
    windows: Mapping[str, Window] | None = None,
    **options: Any,
) -> ScriptedJob:
    """Check the arguments of `run` but for the script, and return the job, which has no micro-batches yet."""
    declares: Any = window
    if callable(declares) and not isinstance(declares, type):  # as `spark_job` takes it
        named = getattr(declares, "__name__", declares)
        raise DeclarationError(
            f"run() takes a window, and got the function {named}; give what it declares, such as "
            'run(TimeInterval("1 hour"), aggregates={"n": agg.count()}, script=[...]). The fixture spark_job takes a '
            "function that declares"
        )
    computed = {name: options.pop(name, None) for name in _COMPUTED}
    for name, example in _DICTS.items():
        argument = {**computed, "ports": ports, "windows": windows}[name]
        if argument is not None:
            require_dict(name, argument, example)
    if sum(choice is not None for choice in (window, ports, windows)) != 1:
        raise DeclarationError("run() takes a window, or ports with a window each, or windows by their names")
    given = [name for name, option in computed.items() if option is not None]
    if len(given) != 1:
        raise DeclarationError(
            'run() takes aggregates, such as aggregates={"n": agg.count()}, or an operator with its output; or, of '
            "ports, join or join_within"
        )
    if ports is None and given[0].startswith("join"):
        raise DeclarationError(f"{given[0]} is of two ports; give ports= with both inputs")
    compute, of_stream = _computing(given[0], computed[given[0]], options, has_ports=ports is not None)
    if ports is None:
        declared = [_port(None, {"window": window, "schema": schema, **of_stream}, has_window=windows is None)]
        declared = [replace(port, windows=windows or {}) for port in declared]
    else:
        shared = of_stream if schema is None else {"schema": schema, **of_stream}
        has_window = given != ["join_within"]
        for name, own in ports.items():
            require_dict(f"ports: {name!r}", own, '{"window": Tumbling(Count(2))}')
        declared = [_port(name, {**shared, **own}, has_window=has_window) for name, own in ports.items()]
    return ScriptedJob(ports=tuple(declared), compute=compute)


def require_dict(what: str, given: Any, example: str) -> None:
    """Raise `DeclarationError` for what is no mapping."""
    if not isinstance(given, Mapping):
        raise DeclarationError(f"{what} is {given!r}; give a dict, such as {example}")


def with_script(declared: ScriptedJob, script: Sequence[Any]) -> ScriptedJob:
    """Return the job with the micro-batches of a script. Raises `DeclarationError` for an item that is none."""
    batches, has_watermarks = _batches(script, declared.ports)
    return replace(declared, batches=batches, has_watermarks=has_watermarks)


def _computing(
    kind: str, computed: Any, options: Mapping[str, Any], *, has_ports: bool
) -> tuple[Callable[[Sequence[Any]], Computation], dict[str, Any]]:
    """Return what makes the computation of the streams, and the options that are left: those of each stream."""
    from panekeeper.framework.builder.ports import ports as ports_of
    from panekeeper.framework.builder.windowed import StreamWithWindow, windowed

    steps: dict[str, Callable[..., Any]] = {
        "aggregates": StreamWithWindow.aggregate,
        "operator": StreamWithWindow.operator,
    }
    takes = _names(steps[kind]) - {"operator"} if kind in steps else set()
    known = takes | _names(windowed)
    for name in options:
        other = next(
            (other_kind for other_kind, step in steps.items() if other_kind != kind and name in _names(step)), None
        )
        if name not in known and other is not None:
            raise DeclarationError(
                f"run() has no option {name!r} with {kind}, but with {other}; leave it out, or give {other}= in place "
                f"of {kind}="
            )
        if name not in known:
            raise DeclarationError(f"run() has no option {name!r}{did_you_mean(name, sorted(known))}")
    own = {name: value for name, value in options.items() if name in takes}
    if kind == "aggregates" and (both := sorted(own.keys() & computed.keys())):
        raise DeclarationError(
            f"{both[0]!r} is given twice, as a name in aggregates= and as an option; rename it in aggregates="
        )
    if kind == "operator" and "output" not in own:
        raise DeclarationError('an operator needs output=, the columns that it emits, such as output="total double"')

    def compute(streams: Sequence[Any]) -> Computation:
        stream: Any = ports_of(*streams) if has_ports else streams[0]
        if kind == "operator":
            computation: Computation = stream.operator(computed, **own)
        elif kind == "aggregates":
            computation = stream.aggregate(**own, **computed)
        else:
            computation = getattr(stream, kind)(**computed)
        return computation

    return compute, {name: value for name, value in options.items() if name not in takes}


def _names(function: Callable[..., Any]) -> set[str]:
    """Return the names of the options that a function takes by keyword."""
    given = inspect.signature(function).parameters.values()
    return {
        parameter.name
        for parameter in given
        if parameter.kind is parameter.KEYWORD_ONLY and not parameter.name.startswith("_")
    } - {"name"}


def _port(name: str | None, declared: Mapping[str, Any], *, has_window: bool = True) -> ScriptPort:
    from panekeeper.framework.builder.windowed import windowed

    where = "run()" if name is None else f"ports: {name!r}"
    unknown = sorted(declared.keys() - _names(windowed) - _OF_PORTS)
    if unknown:
        hint = did_you_mean(unknown[0], sorted(_names(windowed) | _OF_PORTS))
        raise DeclarationError(f"{where} has no option {unknown[0]!r}{hint}")
    schema, window = declared.get("schema"), declared.get("window")
    if has_window and not isinstance(window, Window):
        raise DeclarationError(f"{where}: the window is {window!r}; give one such as TimeInterval(hours(1))")
    columns = columns_of(schema, where)
    options = {key: value for key, value in declared.items() if key not in _OF_PORTS}
    return ScriptPort(name=name, window=window, columns=columns, options=options)


def columns_of(schema: Any, where: str) -> StructType:
    """Return the columns that a schema declares, all of which may be null. Raises `DeclarationError` for what is none.

    Args:
        schema: text, names with types, or a schema of Arrow or Spark.
        where: what it belongs to, for the message.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    from panekeeper.framework.builder.result_columns import declared_columns

    try:
        declared_types = schema if isinstance(schema, StructType) else from_arrow_schema(declared_columns(schema))
        return StructType([StructField(column.name, column.dataType) for column in declared_types])
    except Exception as error:
        raise DeclarationError(
            f'{where}: schema is {schema!r}; write columns as SQL does, "k string, t timestamp, v long", or give a '
            "schema of Arrow or Spark"
        ) from error


def _batches(script: Sequence[Any], ports: Sequence[ScriptPort]) -> tuple[tuple[ScriptBatch, ...], bool]:
    """Return the micro-batches of a script, and whether it says what the watermark is."""
    if isinstance(script, str | bytes | Mapping) or not isinstance(script, Sequence):
        raise DeclarationError(f"script is {script!r}; it must be a list of micro-batches, each a list of rows")
    has_panes = [port for port in ports if port.has_panes]
    parts = [part for number, item in enumerate(script) for part in _parts(number, item)]
    has_watermarks = any(isinstance(part.item, Watermark) for part in parts)
    batches, schemas = list[ScriptBatch](), [port.arrow_columns for port in ports]
    empty = tuple(schema.empty_table() for schema in schemas)
    batch = ScriptBatch(number=-1, tables=empty, now_us=0, is_start=True)
    for place, (number, where, item, is_continued) in enumerate(parts):
        is_down = not is_continued and isinstance(next((later.item for later in parts[place + 1 :]), None), Restart)
        is_start = number == 0 and batch.number != 0
        batch = replace(batch, number=number, tables=empty, is_start=is_start, is_tick=False, is_continued=is_continued)
        match item:
            case Clock():
                is_down = is_down and where == f"script[{number}]"
                batch = replace(batch, is_tick=not is_down, now_us=batch.now_us + (0 if is_down else item.us))
            case Flush():
                if number + 1 < len(script):
                    raise DeclarationError(
                        f"{where} is Flush(), which ends the job for good; make it the last item of the script"
                    )
                batch = replace(batch, is_flush=True)
            case Restart():
                before = script[number - 1] if number else None
                down_us = before.us if isinstance(before, Clock) else 0
                batch = replace(batch, is_start=True, now_us=batch.now_us + down_us)
            case Watermark():
                _require_possible_advance(item, batch.watermark_us, where, has_panes=bool(has_panes))
                batch = replace(batch, watermark_us=item.us)
            case _:
                batch = replace(batch, tables=tuple(_tables(item, ports, schemas, where)))
        batches.append(batch)
    if has_panes and len(ports) == 1 and not has_watermarks and not batch.is_flush:
        batches.append(
            replace(batch, number=len(script), tables=empty, is_start=not batches, is_tick=False, is_continued=False)
        )
    return tuple(batches), has_watermarks


def _require_possible_advance(item: Watermark, before_us: int | None, where: str, *, has_panes: bool) -> None:
    if not has_panes:
        raise DeclarationError(f"{where} is {item}, but no window goes by event time; leave it out")
    if before_us is not None and item.us < before_us:
        raise DeclarationError(f"{where} is {item}, but a watermark never goes back")


class _Part(NamedTuple):
    """What is in an item of a script, in order."""

    number: int
    where: str
    item: Any
    is_continued: bool


def _parts(number: int, item: Any) -> Iterator[_Part]:
    """Yield an item of a script; of a list with a clock or watermark in it, each of these, and the rows between."""
    where = f"script[{number}]"
    steps = (Clock, Watermark)
    if not isinstance(item, list | tuple) or not any(isinstance(row_or_step, steps) for row_or_step in item):
        yield _Part(number, where, item, is_continued=False)
        return
    runs = [(is_step, [*group]) for is_step, group in groupby(item, lambda row_or_step: isinstance(row_or_step, steps))]
    parts = [part for is_step, run in runs for part in (run if is_step else [run])]
    for place, part in enumerate(parts):
        yield _Part(number, f"{where}, part {place}", part, is_continued=place + 1 < len(parts))


def _tables(item: Any, ports: Sequence[ScriptPort], schemas: Sequence[pa.Schema], where: str) -> Iterator[pa.Table]:
    """Yield the rows of each port."""
    names = [port.name for port in ports]
    if names == [None]:
        if isinstance(item, str | bytes | Mapping) or not isinstance(item, Sequence):
            raise DeclarationError(
                f"{where} is {item!r}; it must be a list of rows, Clock(...), Watermark(...), Restart() or Flush()"
            )
        yield rows_table(item, schemas[0], where)
        return
    if not isinstance(item, Mapping) or not item.keys() <= set(names):
        raise DeclarationError(
            f"{where} is {item!r}; with ports it must be a dict of lists of rows by {', '.join(map(repr, names))}, "
            "Clock(...), Watermark(...), Restart() or Flush()"
        )
    for name, schema in zip(names, schemas, strict=True):
        yield rows_table(item.get(name, []), schema, f"{where}[{name!r}]")
