"""JSON schemas of what `--json` prints, made from the types of the results: what is printed and what is said agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

_SIMPLE: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


def object_schema(base: type | None = None, *, optional: Mapping[str, Any] | None = None, **more: Any) -> Schema:
    """Return the schema of an object.

    Args:
        base: a dataclass, whose fields it has.
        optional: fields that may be missing, as `more`.
        more: fields that it has, too: name -> a type, or a schema.
    """
    hints = {} if base is None else get_type_hints(base)
    own = {} if base is None else {one.name: hints[one.name] for one in fields(base)}
    properties = {name: schema_of(kind) for name, kind in {**own, **more, **(optional or {})}.items()}
    required = [*own, *more]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def schema_of(kind: Any) -> Schema:
    """Return the schema of the values of a type, as `json.dumps` writes them; a schema is returned as it is.

    >>> schema_of(list[int | None])
    {'type': 'array', 'items': {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}}
    """
    if isinstance(kind, dict):
        return kind
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        return object_schema(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return _schema_of_generic(kind)


def _schema_of_generic(kind: Any) -> Schema:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        return {"anyOf": [schema_of(one) for one in inner]}
    if origin is Literal:
        return {"enum": [*inner]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        items = [one for one in dict.fromkeys(inner) if one is not Ellipsis]
        return {"type": "array", "items": schema_of(items[0]) if len(items) == 1 else {}}
    raise TypeError(f"there is no JSON schema for {kind!r}; add its type to recovery/cli/schema.py")
