"""Arrow types as a user writes them: an Arrow type, the name of one, or a Python type."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import pyarrow as pa

from framework.declarations.errors import DeclarationError

_PYTHON_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


def arrow_type(declared: Any, aggregate_text: str, what: str) -> pa.DataType:
    """Return the Arrow type that a user declared as an Arrow type, its name, or a Python type."""
    if isinstance(declared, pa.DataType):
        return declared
    if isinstance(declared, str):
        try:
            return pa.type_for_alias(declared)
        except ValueError as error:
            raise DeclarationError(
                f"{aggregate_text}: {what} is {declared!r}, which is not the name of an Arrow type"
            ) from error
    if declared in _PYTHON_TYPES:
        return _PYTHON_TYPES[declared]
    if get_origin(declared) is list:
        return pa.list_(arrow_type(get_args(declared)[0], aggregate_text, what))
    raise DeclarationError(
        f"{aggregate_text}: {what} is {declared!r}; it must be a pyarrow type, "
        "or bool, int, float, str, bytes, or list[...] of these"
    )


def state_type(declared: Any, aggregate_text: str) -> pa.DataType:
    """Return the type in which a user aggregate stores its state; refuses one that would round."""
    if declared is None:
        raise DeclarationError(
            f"{aggregate_text}: merge() is defined, so `state` must say what is stored, e.g. `state = float`"
        )
    kind = arrow_type(declared, aggregate_text, "state")
    if _is_lossy(kind):
        raise DeclarationError(
            f"{aggregate_text}: state is {kind}; storing would round it between batches: use 64-bit floats"
        )
    return kind


def _is_lossy(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_is_lossy(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_floating(kind) and kind != pa.float64())
