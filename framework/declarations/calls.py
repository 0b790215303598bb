"""A call that does not fit is refused where it is written, with the name that a user meant; by signatures alone.

Spark, Flink, Kafka Streams, Beam and bytewax call the same things otherwise. A call that does not fit is a
`DeclarationError` with the name that fits, not Python's `TypeError`. An option that a window does not have is refused
in the same words for every window. Which window has which follows from the parameters of their constructors, too.
"""

from __future__ import annotations

import inspect
import re
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

from panekeeper.framework.declarations.display import Called
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

MEANT = {
    "interval_duration size difference within gap": """
        duration length width window window_duration window_size window_length interval span range of_size size
    """,
    "creation_period step every": """
        slide slide_duration slide_interval sliding hop hop_size hop_duration advance advance_by period every stride
        shift interval
    """,
    "interval_offset starts aligned": "offset start_time window_offset align_to origin start begin alignment align",
    "discard_age": """
        allowed_lateness lateness grace grace_period allow_late max_lateness retention until late_for ttl
    """,
    "gap": "gap_duration session_gap gap_size inactivity inactivity_gap timeout session_timeout max_gap",
    "max_duration": "max_size max_length max_session cap",
    "zone": "timezone time_zone tz zone_id zone_name",
    "early trigger": "trigger triggers early_firing early_firings with_early_firings emit_every speculative",
    "emit": "emit_mode emit_strategy output_mode mode suppress final emit_on",
    "results": "accumulation accumulation_mode accumulating discarding retract",
    "evict retain": "evictor eviction eviction_policy evict_policy keep",
    "size rows retain top k at_most": "count n number rows num_rows max_rows max_count limit batch_size",
    "size": "threshold amount delta seconds minutes time",
    "period": "seconds minutes duration interval processing_time time",
    "attribute column by columns": "attribute column field attr col cols column_name on key",
    "partition_by group_within on": """
        key keys key_by group_by groupby partition partition_key partition_keys partitioned_by by group
    """,
    "event_time": "timestamp timestamp_column time time_column event_time_column ts rowtime time_col timestamp_col",
    "watermark": """
        delay watermark_delay delay_threshold out_of_orderness max_out_of_orderness bounded_out_of_orderness
        with_watermark max_delay
    """,
    "idle_after": "idleness idle_timeout idle with_idleness source_idle_timeout",
    "dedupe": "deduplicate dedup drop_duplicates drop_duplicates_within_watermark distinct unique subset",
    "dedupe_for": "dedupe_within dedup_within ttl",
    "arrival_time": "processing_time ingestion_time arrival proctime",
    "order_by by": "sort sort_by order orderby order_by",
    "where reject fires_when": "filter condition predicate having when",
    "on_error": "error errors error_policy bad_records on_failure mode",
    "name": "job_name app_name query_name id job_id uid step_id",
    "key_groups": "parallelism max_parallelism num_partitions shuffle_partitions buckets",
    "output": "schema output_schema output_type return_type returns result_type output_columns type dtype",
    "handlers": "state state_handler state_handlers handler stateful",
    "listeners": "listener observers callbacks",
    "path": "log location folder output_path uri dir save_path output",
    "table": "table_name into name",
    "view": "current latest snapshot upsert merge_into",
    "quarantine": """
        rejected dead_letter dead_letter_queue dlq side_output get_side_output side_output_late_data bad_rows
    """,
    "cluster_by": "partition_by partitioned_by z_order zorder clustering",
    "properties": "options tbl_properties table_properties config",
    "checkpoint": "checkpoint_location checkpoint_dir checkpoint_path checkpoint_folder",
    "trigger": "processing_time interval once available_now",
    "attach": "reuse if_running",
    "how": "join_type type kind",
    "before after": "lower lower_bound earlier within window tolerance interval",
    "after": "upper upper_bound later",
    "ranks": "percentage percentages percentiles probabilities q quantiles rank",
    "edges": "bins buckets boundaries",
    "weight": "weights",
    "top": "limit n k",
    "options": "servers bootstrap_servers brokers bootstrap kafka_options config",
}
"""Our names, of which one callable has one at most or the first is meant -> what others call that, as words."""

_ELSEWHERE = {
    "watermark": 'windowed(watermark="10 minutes")',
    "event_time": 'windowed(event_time="at")',
    "partition_by": "windowed(..., partition_by=...)",
    "idle_after": 'windowed(idle_after="1 minute")',
    "dedupe": 'windowed(dedupe="id", dedupe_for="1 hour")',
    "arrival_time": 'windowed(arrival_time="received")',
    "order_by": 'windowed(order_by="at")',
    "reject": "windowed(reject=...)",
    "on_error": 'windowed(on_error="fail")',
    "key_groups": "windowed(key_groups=32)",
    "interval_duration": 'TimeInterval("10 minutes")',
    "creation_period": 'TimeInterval("10 minutes", creation_period="5 minutes")',
    "interval_offset": 'TimeInterval("1 hour", interval_offset="15 minutes")',
    "discard_age": 'TimeInterval("10 minutes", discard_age="1 hour")',
    "emit": 'TimeInterval("10 minutes", emit="on_update"), the output mode update; append needs none',
    "early": 'TimeInterval("1 hour", early=Every("1 minute"))',
    "results": 'TimeInterval("10 minutes", results="discarding")',
    "gap": 'Session("30 minutes")',
    "max_duration": 'Session("30 minutes", max_duration="1 day")',
    "zone": 'Calendar("day", zone="Europe/Berlin")',
    "evict": "Sliding(evict=Count(10))",
    "trigger": "Sliding(evict=Count(10), trigger=Count(2))",
    "where": 'an aggregate: agg.sum("fare", where="fare > 0")',
    "group_within": '.aggregate(n=agg.count(), group_within="kind")',
    "top": '.aggregate(n=agg.count(), group_within="kind", top=3, by="n desc")',
    "output": '.operator(..., output="total double")',
    "handlers": ".operator(..., handlers=[...])",
    "view": ".to_delta(path, view=...)",
    "quarantine": ".to_delta(path, quarantine=...)",
    "checkpoint": '.start(checkpoint="out/checkpoint")',
    "before": 'ports(a, b).join_within(before="5 minutes", after="0 seconds")',
    "how": 'ports(a, b).join(how="left")',
}
"""Our name of an option -> the call that has it."""

_SHOWN = 5
"""So many names are listed."""
_THEIRS: dict[str, list[str]] = {}
for _ours, _words in MEANT.items():
    for _word in _words.split():
        _THEIRS.setdefault(_word, []).extend(_ours.split())


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that refuses a call which does not fit it by a `DeclarationError` with the name that does."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            refusal = _refusal(function, args, kwargs)
            if refusal is None:  # it fits: the error is of something else
                raise
            raise DeclarationError(refusal) from None

    return called


def warn_caller(cautions: Iterable[str]) -> None:
    """Warn of these, each once, at the line of the user who has called a function with `named_options`."""
    for caution in dict.fromkeys(cautions):
        warnings.warn(caution, stacklevel=4)  # this function, the one with `named_options`, and that itself


def with_named_options(kind: type[C]) -> type[C]:
    """Do the same for a class, whose instances are made by such calls."""
    setattr(kind, "__init__", named_options(kind.__init__))  # noqa: B010 -- no assignment to a method, says mypy
    return kind


_WINDOWS: list[type[WindowOptions]] = []


class WindowOptions(Called):
    """Base of all windows, which refuses an option that the window does not have.

    Attributes:
        refused: option -> why this window does not have it, and what to do instead; where more is to be said than which
            windows have it.
    """

    refused: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(__package__):  # not one of a user's
            _WINDOWS.append(cls)

    def __new__(cls, *_: Any, **options: Any) -> Self:
        """Raise `DeclarationError` for an option that the window does not have."""
        for name, value in options.items():
            if name in cls.refused or name not in options_of(cls):
                raise DeclarationError(_refusal_of_window(cls, name, value))
        return super().__new__(cls)


def options_of(window: type[WindowOptions]) -> frozenset[str]:
    """Return the names of what a window takes; of one that passes options on, also those of its base."""
    options = set[str]()
    for base in window.__mro__:
        if "__init__" not in vars(base):
            continue
        own = vars(base)["__init__"]
        options |= {parameter.name for parameter in _parameters(own)}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in inspect.signature(own).parameters.values()):
            break
    return frozenset(options - window.refused.keys())


def meant_by(name: str, options: Sequence[str]) -> str:
    """Return what a user is told who has used the name of an option that is none of these, as the end of a sentence.

    >>> meant_by("slideDuration", ["interval_duration", "creation_period"])
    "; did you mean 'creation_period'?"
    >>> meant_by("timezone", ["interval_duration"])
    '; zone is for Calendar("day", zone="Europe/Berlin")'
    """
    if hint := meant_as_option(name, options):
        return hint
    if option := _option_elsewhere(name):
        return f"; {option} is for {_ELSEWHERE[option]}"
    if hint := did_you_mean(name, options):
        return hint
    return f"; it takes {', '.join(options)}" if options else "; it takes none by name"


def meant_as_option(name: str, options: Sequence[str]) -> str:
    """Return `; did you mean 'x'?` with the option that others call so; empty if there is none."""
    return next((f"; did you mean {candidate!r}?" for candidate in _candidates(name) if candidate in options), "")


def call_with_option(name: str) -> str:
    """Return the call that has the option that others call so; empty if there is none.

    >>> call_with_option("outputMode")
    'TimeInterval("10 minutes", emit="on_update"), the output mode update; append needs none'
    """
    return _ELSEWHERE.get(_option_elsewhere(name), "")


def _option_elsewhere(name: str) -> str:
    return next((candidate for candidate in _candidates(name) if candidate in _ELSEWHERE), "")


def as_ours(name: str) -> str:
    """Return a name as ours are written.

    >>> as_ours("outputMode")
    'output_mode'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


def _candidates(name: str) -> list[str]:
    """Return the name as ours are written, and our names for what others call so."""
    theirs = as_ours(name)
    return [theirs, *_THEIRS.get(theirs, [])]


def _refusal(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str | None:
    """Return why a call does not fit; None if it does."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return None
    parameters = [*_parameters(function)]
    has_self = next(iter(inspect.signature(function).parameters), "") == "self"
    given, by_name = (
        args[has_self:],
        {parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY},
    )
    name, options = _name(function, args), _options(function, args)
    for keyword in kwargs:
        if keyword not in by_name:
            return _without_option(name, keyword, options)
    placed = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(given) > len(placed):
        extra = ", ".join(map(reprlib.repr, given[len(placed) :]))
        others = [f"{option}=" for option in options if option not in placed]
        shown = ", ".join(others[:_SHOWN] + ["..."] * (len(others) > _SHOWN))
        takes_any = any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in inspect.signature(function).parameters.values()
        )
        advice = f"name it: {shown}" if others else "give it one" if takes_any else "leave it out"
        return f"{name}() got {extra} without a name; {advice}"
    for argument in placed[: len(given)]:
        if argument in kwargs:
            return f"{name}() got {argument} twice, once by its name; give it once"
    missing = [
        parameter.name
        for parameter in parameters[len(given) :]
        if parameter.default is parameter.empty and parameter.name not in kwargs
    ]
    return f"{name}() is without {' and '.join(missing)}; give {', '.join(f'{argument}=...' for argument in missing)}"


def _without_option(called: str, name: str, options: Sequence[str]) -> str:
    return f"{called}() has no option {name!r}{meant_by(name, options)}"


def _refusal_of_window(window: type[WindowOptions], name: str, value: Any) -> str:
    if name in window.refused:
        return f"{name} is {value!r}; {window.refused[name]}"
    known = sorted(options_of(window))
    having = [window_class.__name__ for window_class in _WINDOWS if name in options_of(window_class)]
    if not having:
        return _without_option(window.__name__, name, known)
    *others, last = having
    of = f"{', '.join(others)} and {last}" if others else last
    advice = meant_by(name, known) if len(_candidates(name)) > 1 else "; leave it out"
    return f"{name} is {value!r}, an option of {of} that {window.__name__} does not have{advice}"


def _name(function: Callable[..., Any], args: Sequence[Any]) -> str:
    if function.__name__ == "__init__":
        return type(args[0]).__name__
    return f"agg.{function.__name__}" if function.__module__.endswith(".aggregates") else function.__name__


def _options(function: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """Return the names that a call may have; of a class first its own, then those of its bases."""
    names = [parameter.name for parameter in _parameters(function)]
    if function.__name__ != "__init__":
        return names
    kind = type(args[0])
    names += [parameter.name for parameter in _parameters(kind.__init__)]
    own = [name for name in vars(kind).get("__annotations__", {}) if name in names]
    refused = getattr(kind, "refused", ())  # of a window
    return [name for name in dict.fromkeys([*own, *names]) if name not in refused]


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function but for `self`, and for what stands for any others."""
    for parameter in inspect.signature(function).parameters.values():
        if (
            parameter.name != "self"
            and not parameter.name.startswith("_")
            and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ):
            yield parameter
