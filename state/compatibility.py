"""Whether a job with a changed declaration can continue from the stored state: the only place that decides.

A start is refused by these rules (`framework/engine/job/checkpoint_checks.py`), and `panekeeper plan` reports them
before anything is started (`recovery/upgrade/check.py`). What has no rule here needs a flush; a change that has one
may be undone by the same rules (docs/semantics.md section 13). Pure: two recorded declarations in, flattened to
dotted names, one change for each part of them out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from panekeeper.state.duration_text import us_text
from panekeeper.state.history import (
    WINDOWS,
    History,
    aggregates_of,
    calendars_with_other_data,
    column_type,
    declared_part,
)

_OF_TIME = "_us"
"""The names of fields that are durations end so; they are microseconds."""
_LONGEST_SHOWN = 200
"""Of a value that a message shows, so many characters: what is known of a time zone has thousands."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field that is not what the checkpoint was written with. `None` means the field is absent on that side."""

    field: str
    old: Any
    new: Any

    def __str__(self) -> str:
        name = self.field.removesuffix(_OF_TIME)
        is_time = name != self.field
        old, new = (_show(value, is_time=is_time) for value in (self.old, self.new))
        return f"{name}: {old} in the checkpoint, {new} now"


def fingerprint(declaration: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a nested declaration into JSON-able dotted fields.

    >>> fingerprint({"window": {"kind": "timeInterval", "size": 5}, "keys": ["a"]})
    {'window.kind': 'timeInterval', 'window.size': 5, 'keys': ['a']}
    """
    flat: dict[str, Any] = {}
    for name, value in declaration.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": v for inner, v in fingerprint(value).items()}
        else:
            flat[name] = value
    return flat


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """List the fields in which two fingerprints differ, in the order of the new one.

    >>> [str(d) for d in compare({"a": 1, "b": 2}, {"a": 1, "b": 3})]
    ['b: 2 in the checkpoint, 3 now']
    """
    names = list(new) + [name for name in old if name not in new]
    differences = [Difference(field=name, old=old.get(name), new=new.get(name)) for name in names]
    return [
        difference
        for difference in differences
        if difference.old != difference.new and repr(difference.old) != repr(difference.new)
    ]  # NaN is not equal to itself


def _show(value: Any, *, is_time: bool = False) -> str:
    if is_time and type(value) is int:
        return us_text(value)
    text = "absent" if value is None else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


Declaration = Mapping[str, Any]
"""A declaration as a checkpoint records it: dotted field -> value."""


class StoredForm(Enum):
    """What a window keeps of its rows between batches."""

    SLICES = "partial results by slices of event time"
    PARTIAL = "one partial result a partition, or session"
    ROWS = "the rows themselves"


_SPARK_TYPES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
    "timestamp[us, tz=UTC]": "timestamp",
}
_TRIGGER_SIZES = {"window.trigger.size", "window.trigger.size_us"}
_TRIGGERS = {
    "count": "a window fires with each row whose number since its last firing is a multiple of the new count",
    "time": "a window fires when it was due, and then at the new period",
    "delta": "the value of the last firing stays what new rows are compared with, by the new size",
}
"""Policy of a trigger -> from when another size of it holds."""


def reason_kept(item: str, fields: frozenset[str], old: Declaration, new: Declaration) -> str | None:
    """Return from when a changed part of a declaration (`window`, `aggregate total`, ...) holds, if the state is kept.

    `fields` are those of the part that differ between the recorded and the declared one. None: it is not kept.
    """
    if any(name.startswith(_PORT) for name in (*old, *new)) or old.get("window.kind") != new.get("window.kind"):
        return None
    kind, _, name = item.partition(" ")
    if kind in ("window", "when_idle", "dedupe_for_us"):
        return _window(fields, old, new)
    if stored_form(old) is not stored_form(new):
        return None
    if kind == "column":
        return _column(name, old, new)
    has_groups = any(
        declaration.get("aggregate.groups.kind") == "groups" for declaration in (old, new)
    )  # all are stored together
    if kind in ("aggregate", "output") and aggregates_of(old) and not has_groups:
        return _aggregate(name, old, new)
    return None


def is_wider(old: str | None, new: str | None) -> bool:
    """Return whether a type has every value of another one, and whatever is computed of a value stays the same.

    >>> is_wider("int32", "int64"), is_wider("decimal128(5, 2)", "decimal128(9, 2)"), is_wider("int32", "double")
    (True, True, False)
    """
    before, now = (None if type_text is None else column_type(type_text) for type_text in (old, new))
    if before is None or now is None:
        return False
    for is_kind in (pa.types.is_integer, pa.types.is_floating):
        if is_kind(before) and is_kind(now):
            return bool(before.bit_width < now.bit_width)
    if pa.types.is_decimal(before) and pa.types.is_decimal(now):
        return bool(before.scale == now.scale and before.precision < now.precision)
    return pa.types.is_list(before) and pa.types.is_list(now) and is_wider(str(before.value_type), str(now.value_type))


def stored_form(declaration: Declaration) -> StoredForm:
    """Return what the window of a recorded declaration keeps of its rows.

    >>> stored_form({"window.kind": "sliding", "aggregate.n.kind": "count", "output.n": "int64"})
    <StoredForm.ROWS: 'the rows themselves'>
    """

    def needs_rows(name: str) -> bool:
        kind = declaration.get(f"aggregate.{name}.kind")
        return kind == "collect" or (kind == "user" and declaration.get(f"aggregate.{name}.state") is None)

    names = aggregates_of(declaration)
    forms = {"timeInterval": StoredForm.SLICES, "tumbling": StoredForm.PARTIAL, "session": StoredForm.PARTIAL}
    cuts_or_has_gaps = declaration.get("window.gap") or declaration.get("window.max_duration_us")
    if not names or any(map(needs_rows, names)) or cuts_or_has_gaps:
        return StoredForm.ROWS
    return forms.get(declaration["window.kind"], StoredForm.ROWS)


def _window(fields: frozenset[str], old: Declaration, new: Declaration) -> str | None:
    if fields == {"dedupe_for_us"} and None is not old.get("dedupe") == new.get("dedupe"):
        return "it holds from the next batch on; ids that are forgotten by then stay forgotten"
    if fields == {"when_idle"} and None is not old.get("watermark_by") == new.get("watermark_by"):
        return "it holds from the next batch on"
    if fields == {"window.discard_age_us"} and new["window.kind"] == "timeInterval":
        return (
            "the new discard age holds from the next watermark on, for panes that are still open; those that are "
            "closed stay closed"
        )
    if fields <= _TRIGGER_SIZES:
        return _TRIGGERS.get(str(new.get("window.trigger.policy")))
    return None


def _aggregate(name: str, old: Declaration, new: Declaration) -> str | None:
    before, now = name in aggregates_of(old), name in aggregates_of(new)
    if before and not now and column_type(old[f"output.{name}"]) is not None:
        return "its column stays in the log and in the view, and is null from the next batch on"
    if before or not now:
        return None
    if History.of(old).retired.get(name, new[f"output.{name}"]) != new[f"output.{name}"]:
        return None  # the tables have a column of this name and another type
    form = stored_form(old)
    if form is StoredForm.SLICES:
        return "it begins with the first pane that has no rows yet; panes that have rows give null for it"
    if form is StoredForm.ROWS and all(f"column.{column}" in old for column in new[f"aggregate.{name}.columns"]):
        return "it is computed from the stored rows, from the next firing on"
    return None


def _column(name: str, old: Declaration, new: Declaration) -> str | None:
    is_old, is_new = f"column.{name}" in old, f"column.{name}" in new
    if is_old and is_new:
        return None
    if not aggregates_of(old):  # an operator
        return "rows that are stored have it no more" if is_old else "rows that are stored are null in it"
    if stored_form(old) is not StoredForm.ROWS:
        return "the window stores no rows"
    return None if is_new else "stored rows keep it until they leave, and nothing reads it"


class Compatibility(Enum):
    """Whether a job can continue from the stored state; the later, the worse."""

    COMPATIBLE = "compatible"
    NEEDS_FLUSH = "needs a flush"
    IMPOSSIBLE = "impossible"


_FLUSH = (
    "flush the job as it was declared, and start the new one with a new checkpoint folder and new tables, on the rows "
    "that the old one has not read"
)
FLUSH = f"put the declaration back; or {_FLUSH}"
"""What to do about a change that the stored state is not compatible with."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One part of a declaration, as it was and as it is.

    Attributes:
        item: which part: `window`, `aggregate total`, `key_groups`, ...
        compatibility: what its difference means; compatible if there is none.
        why: the reason.
        advice: what to do; empty if there is nothing to do.
        differences: its fields that differ.
        is_news: whether it is to be told though no field differs.
    """

    item: str
    compatibility: Compatibility
    why: str
    advice: str = ""
    differences: tuple[Difference, ...] = ()
    is_news: bool = False


_WHY = {
    "window": "the stored state was computed by the other window",
    "partition_by": "the stored state belongs to partitions by the other columns, or in their other order",
    "event_time": "open panes hold rows that were placed by the other time",
    "arrival_time": "the stored state was computed with the other clock",
    "when_idle": "Spark keeps a watermark that waits, and the key groups keep one that goes on",
    "dedupe": "ids are stored by the other columns, or were not stored at all",
    "dedupe_for_us": "ids are stored from the first row on, or not at all",
    "watermark_by": "the watermark was kept for all rows together, or for each partition",
    "punctuation": "open windows hold rows that were gathered by the other marks",
    "marks": "open windows hold rows that were gathered by the other marks",
    "column": "stored rows have the other columns",
    "aggregate": "what is open holds no partial result of it, or one of the other kind",
    "operator": "what is open was gathered for the other operator, and its state is stored under its name",
    "join": "kept rows were matched by the other rule, and results are never taken back",
    "operators_before": "Spark keeps a state for each of its own operators before windowed(), and takes no others",
    "handlers": "the state of handlers is stored under their names, in their order",
    "output": "results of what is open would have other columns than those in the tables",
    "key_groups": "keys were assigned to the other number of groups, for the life of the checkpoint",
}
_ZONE_DATA = "panes up to the last one with rows keep their starts and ends; those after it have the new ones"
_OTHER = "the stored state was written under the other declaration"
_PORT = "port_"  # the further input ports, each with a window of its own
_KEY = "partition_by."
_BY_NAME = {"aggregate", "column", "output"}  # parts of these are compared one by one


def as_recorded(declaration: Mapping[str, Any], key_groups: int) -> dict[str, Any]:
    """Return a declaration as a checkpoint records it and reads it back."""
    windows = declaration.get(WINDOWS, {})
    recorded = fingerprint({name: value for name, value in declaration.items() if name != WINDOWS})
    recorded |= {WINDOWS: {name: fingerprint(window) for name, window in windows.items()}} if windows else {}
    return dict(json.loads(json.dumps({**recorded, "key_groups": key_groups})))


def compare_declarations(recorded: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the change of each part of a recorded declaration, in the order of the new one.

    >>> [c] = compare_declarations({"key_groups": 8}, {"key_groups": 16})
    >>> c.item, c.compatibility.value
    ('key_groups', 'needs a flush')
    """
    if WINDOWS in recorded or WINDOWS in new:
        return _compare_windows(recorded, new)
    old, new = declared_part(recorded), declared_part(new)
    parts: dict[str, list[Difference]] = {}
    names = [*aggregates_of(old), *aggregates_of(new)]
    for field in [*new, *(name for name in old if name not in new)]:
        parts.setdefault(_item(field, names), [])
    for difference in [*compare(old, new), *_reordered_keys(old, new)]:
        parts[_item(difference.field, names)].append(difference)
    return [_change(item, tuple(differences), recorded, new) for item, differences in parts.items()]


def _compare_windows(recorded: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changes of several windows: of each by itself, and what they share."""
    old_windows, new_windows = recorded.get(WINDOWS), new.get(WINDOWS)
    if old_windows is None or new_windows is None:
        names = [None if windows is None else [*windows] for windows in (old_windows, new_windows)]
        return [_of_windows("the state of a window by itself is not stored as that of one of several", *names)]
    shared = [{name: declaration[name] for name in declaration if name != WINDOWS} for declaration in (recorded, new)]
    changes = compare_declarations(*shared)
    for name in dict.fromkeys([*new_windows, *old_windows]):
        if name not in new_windows:
            changes.append(_of_windows("its panes are stored, and nothing would fire them", name, None))
        elif name not in old_windows:
            why = "rows that were read before are in none of its panes, so that its first results would lack them"
            changes.append(_of_windows(why, None, name))
        else:
            for change in compare_declarations(old_windows[name], new_windows[name]):
                own = [replace(difference, field=f"{name}: {difference.field}") for difference in change.differences]
                changes.append(replace(change, item=f"{name}: {change.item}", differences=tuple(own)))
    return changes


def _of_windows(why: str, old: Any, new: Any) -> Change:
    advice = f"give the other window a job of its own; {FLUSH}"
    differences = (Difference(field=WINDOWS, old=old, new=new),)
    return Change(
        item=WINDOWS, compatibility=Compatibility.NEEDS_FLUSH, why=why, advice=advice, differences=differences
    )


def _reordered_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the partition columns that are the same in another order, by which keys belong to other key groups."""
    for prefix in dict.fromkeys(name.partition(_KEY)[0] + _KEY for name in new if _KEY in name):
        before, now = ([name for name in declaration if name.startswith(prefix)] for declaration in (old, new))
        if before != now and {*before} == {*now}:
            columns = [[name.removeprefix(prefix) for name in names] for names in (before, now)]
            yield Difference(field=prefix.rstrip("."), old=columns[0], new=columns[1])


def _item(field: str, aggregates: Iterable[str]) -> str:
    """Return the part of a declaration that a field belongs to. A name may have dots, and begin with another one."""
    kind, _, rest = field.partition(".")
    if kind.startswith(_PORT):
        return f"{kind} {_item(rest, aggregates)}"
    if kind not in _BY_NAME or not rest:
        return kind
    if kind != "aggregate":
        return f"{kind} {rest}"
    owners = (name for name in aggregates if rest.startswith(f"{name}."))
    return f"{kind} {max(owners, key=len, default=rest.partition('.')[0])}"


def _change(
    item: str, differences: tuple[Difference, ...], recorded: Mapping[str, Any], new: Mapping[str, Any]
) -> Change:
    if not differences:
        return Change(item=item, compatibility=Compatibility.COMPATIBLE, why="unchanged")
    if all(
        difference.field.removeprefix(_port_of(difference.field)).startswith("column.") for difference in differences
    ) and all(is_wider(difference.old, difference.new) for difference in differences):
        why = "what is stored of it is widened, and no value changes"
        return Change(item=item, compatibility=Compatibility.COMPATIBLE, why=why, differences=differences)
    fields = frozenset(difference.field for difference in differences)
    zone_data = {f"{window}zone_data" for window in calendars_with_other_data(recorded, new)}
    kept = _ZONE_DATA if fields <= zone_data else reason_kept(item, fields - zone_data, recorded, new)
    if kept is not None:
        return Change(item=item, compatibility=Compatibility.COMPATIBLE, why=kept, differences=differences)
    words = item.split()
    why = _WHY.get(words[1] if words[0].startswith(_PORT) else words[0], _OTHER)
    casts = _casts(differences, recorded, new)
    advice = f"cast it in the stream as it was, {' and '.join(casts)}; or {_FLUSH}" if casts else FLUSH
    return Change(item=item, compatibility=Compatibility.NEEDS_FLUSH, why=why, advice=advice, differences=differences)


def _casts(differences: Iterable[Difference], recorded: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return how the columns by whose types declarations differ get those of before; none if not only they differ."""

    def type_of(declaration: Mapping[str, Any], port: str, column: str) -> str:
        return spark_type(
            declaration.get(f"{port}column.{column}") or declaration.get(f"{port}partition_by.{column}", "")
        )

    casts: list[str] = []
    for difference in differences:
        port = _port_of(difference.field)
        kind, _, name = difference.field.removeprefix(port).partition(".")
        columns = new.get(f"{port}aggregate.{name}.columns", []) if kind == "output" else [name]
        types = {column: (type_of(recorded, port, column), type_of(new, port, column)) for column in columns}
        column_casts = [
            f'.withColumn("{column}", F.col("{column}").cast("{old}"))'
            for column, (old, now) in types.items()
            if old and now and old != now
        ]
        if not column_casts:
            return []
        casts += (cast for cast in column_casts if cast not in casts)
    return casts


def _port_of(field: str) -> str:
    """Return with what the fields of the port begin that a field is of: nothing for the first one."""
    return f"{field.partition('.')[0]}." if field.startswith(_PORT) else ""


def spark_type(text: str) -> str:
    """Return how Spark names a recorded type.

    >>> spark_type("int32"), spark_type("decimal128(5, 2)"), spark_type("struct<int32: list<item: double>>")
    ('int', 'decimal(5, 2)', 'struct<int32: array<double>>')
    """
    text = re.sub(r"list<\w+: ", "array<", text.replace(" not null", "").replace("decimal128(", "decimal("))
    return re.sub(r"(?<!\w)(\w+(?:\[[^]]+\])?)(?![\w:])", lambda match: _SPARK_TYPES.get(match[1], match[1]), text)


def name_change(old: str, new: str) -> Change:
    """Return what a changed name of the job means: the name is part of its transaction ids in the tables."""
    if old == new:
        return Change(item="job", compatibility=Compatibility.COMPATIBLE, why="unchanged")
    difference = Difference(field="name", old=old, new=new)
    return Change(
        item="job",
        compatibility=Compatibility.IMPOSSIBLE,
        why=f"this is the checkpoint of job {old!r}, not of {new!r}",
        advice="put the name back; or give this job a folder of its own",
        differences=(difference,),
    )


def flush_change(*, flushed: bool) -> Change:
    """Return whether the job can continue at all: a flush closes its windows for good."""
    if not flushed:
        return Change(item="end", compatibility=Compatibility.COMPATIBLE, why="its windows are open")
    return Change(
        item="end",
        compatibility=Compatibility.IMPOSSIBLE,
        why="the job was flushed: its windows are closed for good, and its tables complete",
        advice="to process more rows, start with a new checkpoint folder",
    )
