"""What a job spec is made of, as JSON and back: declarations by their fields, code of the user's by its name.

The JSON of a value that JSON has itself is that value. All else is an object with one field, which says what it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MappingProxyType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa

from panekeeper.framework.declarations.errors import DeclarationError

_OF_PYTHON = ("builtins", "operator", "math", "functools", "collections")


class _Form(NamedTuple):
    """How values of a type are written, by which name, and how they are read."""

    kind: type | tuple[type, ...]
    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _schema_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


_PLAIN = (
    _Form(float, "float", str, float),  # those that JSON has not
    _Form(pa.Schema, "schema", _schema_text, _schema_of),
    _Form(
        pa.DataType,
        "type",
        lambda data_type: _schema_text(pa.schema([pa.field("", data_type)])),
        lambda text: _schema_of(text).field(0).type,
    ),
    _Form(bytes, "bytes", lambda data: base64.b64encode(data).decode(), base64.b64decode),
    _Form(timedelta, "us", lambda span: span // timedelta(microseconds=1), lambda us: timedelta(microseconds=us)),
    _Form(datetime, "datetime", datetime.isoformat, datetime.fromisoformat),
    _Form(date, "date", date.isoformat, date.fromisoformat),
    _Form(Decimal, "decimal", str, Decimal),
    _Form(ZoneInfo, "zone", str, ZoneInfo),
)
"""Values without parts; the first form that fits is that of a value."""
_CODE = (type, FunctionType, BuiltinFunctionType)


def to_json(value: Any, needs: set[str]) -> Any:
    """Return a value as JSON; the user's code that it needs is added to `needs`, by its name.

    Raises:
        DeclarationError: it has code that cannot be imported by its name, or holds what has no fields.
    """
    if isinstance(value, Enum):
        return {"enum": [_place(type(value), needs), value.name]}
    if value is None or isinstance(value, bool | str | int) or (isinstance(value, float) and abs(value) < float("inf")):
        return value
    if isinstance(value, list | tuple | set | frozenset | dict | MappingProxyType):
        return _container(value, needs)
    for form in _PLAIN:
        if isinstance(value, form.kind):
            return {form.name: form.write(value)}
    if isinstance(value, _CODE):
        return {"import": _place(value, needs)}
    state = _state(value, needs)
    return {"object": [_place(type(value), needs), state]}


def _container(value: Any, needs: set[str]) -> Any:
    if isinstance(value, list):
        return [to_json(member, needs) for member in value]
    if isinstance(value, tuple | set | frozenset):
        items = value if isinstance(value, tuple) else sorted(value, key=repr)
        name = "tuple" if isinstance(value, tuple) else "set" if isinstance(value, set) else "frozenset"
        return {name: [to_json(member, needs) for member in items]}
    return {"dict": [[to_json(name, needs), to_json(member, needs)] for name, member in value.items()]}


def from_json(value: Any) -> Any:
    """Return the value that `to_json` was given. Raises `DeclarationError` for code that cannot be imported."""
    if isinstance(value, list):
        return [from_json(member) for member in value]
    if not isinstance(value, dict):
        return value
    ((name, given),) = value.items()
    for form in _PLAIN:
        if form.name == name:
            return form.read(given)
    return _READ[name](given)


def _object_of(given: tuple[str, Mapping[str, Any]]) -> Any:
    made = object.__new__(_imported(given[0]))
    for name, stored in given[1].items():
        object.__setattr__(made, name, from_json(stored))  # of a frozen one, too; it was checked where it was declared
    return made


def _named(place: str) -> Any:
    return _imported(place)


_READ: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda given: tuple(map(from_json, given)),
    "set": lambda given: {*map(from_json, given)},
    "frozenset": lambda given: frozenset(map(from_json, given)),
    "dict": lambda given: {from_json(name): from_json(member) for name, member in given},
    "enum": lambda given: _imported(given[0])[given[1]],
    "import": _named,
    "object": _object_of,
}


def _state(value: Any, needs: set[str]) -> Mapping[str, Any]:
    """Return the fields of an object. Raises `DeclarationError` if it is more than these."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name), needs) for field in fields(value)}
    kind: Any = type(value)
    has_slots = any(getattr(base, "__slots__", ()) for base in kind.__mro__)
    if not hasattr(value, "__dict__") or has_slots or kind.__reduce__ is not object.__reduce__:
        raise DeclarationError(
            f"a capsule cannot hold {value!r}, an object of {kind.__module__}.{kind.__qualname__}, which is more than "
            "its attributes; make it in the code of the operator or aggregate, in place of keeping it there"
        )
    return {name: to_json(attribute, needs) for name, attribute in vars(value).items()}


def _place(code: Any, needs: set[str]) -> str:
    """Return by which module and name something is imported. Raises `DeclarationError` if it is not."""
    module, name = str(code.__module__), str(code.__qualname__)
    place, is_of_file = f"{module}:{name}", module.startswith("_panekeeper_job_")
    if module in ("__main__", "__mp_main__") or is_of_file or "<" in name:
        where = "the file of the job itself" if is_of_file else module
        raise DeclarationError(
            f"a capsule names the code that it needs, and {name} of {where} cannot be imported by a name; move it to a "
            "module of its own, at the top level, and import it from there"
        )
    if _imported(place) is not code:
        raise DeclarationError(f"a capsule names the code that it needs, and {place} is something else by now")
    if module.partition(".")[0] not in ("panekeeper", *_OF_PYTHON):
        needs.add(place)
    return place


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except (ImportError, AttributeError) as error:
        raise DeclarationError(
            f"the capsule needs {name} of the module {module}, which cannot be imported here ({error}); put the module "
            "on the path, as PYTHONPATH=FOLDER"
        ) from error
