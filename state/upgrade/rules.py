"""Which changes of a declaration keep the stored state, and from when the new one holds (docs/semantics.md section 13).

Pure: recorded declarations in, a reason out. What has no rule here needs a flush. A change that has one may be undone
by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from panekeeper.state.upgrade.history import History, aggregates_of, column_type

Declaration = Mapping[str, Any]
"""A declaration as a checkpoint records it: dotted field -> value."""


class StoredForm(Enum):
    """What a window keeps of its rows between batches."""

    SLICES = "partial results by slices of event time"
    PARTIAL = "one partial result a partition"
    ROWS = "the rows themselves"


_TRIGGER_SIZES = {"window.trigger.size", "window.trigger.size_us"}
_TRIGGERS = {
    "count": "a window fires with each row whose number since its last firing is a multiple of the new count",
    "time": "a window fires when it was due, and then at the new period",
    "delta": "the value of the last firing stays what new rows are compared with, by the new size",
}
"""Policy of a trigger -> from when another size of it holds."""


def reason_kept(item: str, fields: frozenset[str], old: Declaration, new: Declaration) -> str | None:
    """Return from when a changed part of a declaration holds, if the state is kept; None if it is not.

    Args:
        item: the part: `window`, `aggregate total`, `output total`, `column value`, ...
        fields: its fields that differ.
        old: the recorded declaration.
        new: the declared one.
    """
    if any(name.startswith("port_") for name in (*old, *new)) or old.get("window.kind") != new.get("window.kind"):
        return None
    kind, _, name = item.partition(" ")
    if kind == "window":
        return _window(fields, new)
    if stored_form(old) is not stored_form(new):
        return None
    if kind == "column":
        return _column(name, old, new) if aggregates_of(old) else _column_of_operator(name, old, new)
    if kind in ("aggregate", "output") and aggregates_of(old):
        return _aggregate(name, old, new)
    return None


def stored_form(declaration: Declaration) -> StoredForm:
    """Return what the window of a recorded declaration keeps of its rows.

    >>> stored_form({"window.kind": "sliding", "aggregate.n.kind": "count", "output.n": "int64"})
    <StoredForm.ROWS: 'the rows themselves'>
    """
    names = aggregates_of(declaration)
    forms = {"timeInterval": StoredForm.SLICES, "tumbling": StoredForm.PARTIAL}
    if not names or any(_needs_rows(declaration, name) for name in names):
        return StoredForm.ROWS
    return forms.get(declaration["window.kind"], StoredForm.ROWS)


def _needs_rows(declaration: Declaration, name: str) -> bool:
    kind = declaration.get(f"aggregate.{name}.kind")
    return kind == "collect" or (kind == "user" and declaration.get(f"aggregate.{name}.state") is None)


def _window(fields: frozenset[str], new: Declaration) -> str | None:
    if fields == {"window.discard_age_us"}:
        return (
            "the new discard age holds from the next watermark on, for panes that are still open; those that are "
            "closed stay closed"
        )
    if fields <= _TRIGGER_SIZES:
        return _TRIGGERS.get(str(new.get("window.trigger.policy")))
    return None


def _aggregate(name: str, old: Declaration, new: Declaration) -> str | None:
    before, now = name in aggregates_of(old), name in aggregates_of(new)
    if before and not now:
        return _removed(old[f"output.{name}"])
    if now and not before:
        return _added(name, old, new)
    return None


def _removed(kind: str) -> str | None:
    if column_type(kind) is None:
        return None
    return "its column stays in the log and in the view, and is null from the next batch on"


def _added(name: str, old: Declaration, new: Declaration) -> str | None:
    if History.of(old).retired.get(name, new[f"output.{name}"]) != new[f"output.{name}"]:
        return None  # the tables have a column of this name and another type
    form = stored_form(old)
    if form is StoredForm.SLICES:
        return "it begins with the first pane that has no rows yet; panes that have rows give null for it"
    columns = new[f"aggregate.{name}.columns"]
    if form is StoredForm.ROWS and all(f"column.{one}" in old for one in columns):
        return "it is computed from the stored rows, from the next firing on"
    return None


def _column(name: str, old: Declaration, new: Declaration) -> str | None:
    field = f"column.{name}"
    if field in old and field in new:
        return None
    if stored_form(old) is not StoredForm.ROWS:
        return "the window stores no rows"
    return None if field in new else "stored rows keep it until they leave, and nothing reads it"


def _column_of_operator(name: str, old: Declaration, new: Declaration) -> str | None:
    field = f"column.{name}"
    if field not in old:
        return "rows that are stored are null in it"
    return None if field in new else "rows that are stored have it no more"
