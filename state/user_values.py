"""Values of a user's own that are kept with the state: typed, readable by any version, no pickle.

JSON where it is faithful, a tagged object where it is not: `{"$bytes": ...}`, `{"$datetime": ...}`. Arrow tables travel
beside them. What has no such form is refused when it is written, not found broken when it is read.
"""

from __future__ import annotations

import base64
import copy
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

_READ: dict[str, Callable[[Any], Any]] = {
    "$bytes": base64.b64decode,
    "$datetime": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$timedelta": lambda us: timedelta(microseconds=us),
    "$decimal": Decimal,
    "$float": lambda text: float(text.removeprefix("np.float64(").removesuffix(")")),  # as it once was written
    "$tuple": lambda items: tuple(from_json(item) for item in items),
    "$dict": lambda pairs: {from_json(key): from_json(value) for key, value in pairs},
}


_NEVER_CHANGE = (str, bytes, int, float, date, timedelta, Decimal, type(None))


def snapshot(value: Any) -> Any:
    """Return a value that stays as it is now: of a list or a dict, which its owner may change later, a copy.

    >>> row = [1]
    >>> taken = snapshot(row)
    >>> row.append(2)
    >>> taken
    [1]
    """
    if isinstance(value, _NEVER_CHANGE):
        return value
    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 -- whatever its class raises: it fits no column and no state, and is refused there
        return value


def to_json(value: Any) -> Any:
    """Return a value in a JSON-able form that `from_json` turns back into an equal one of the same type.

    Raises `TypeError` for what has no such form.

    >>> to_json({"seen": (1, b"x")})
    {'seen': {'$tuple': [1, {'$bytes': 'eA=='}]}}
    """
    if value is None or isinstance(value, bool | int | str):
        return _is_plain_json(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": float.__repr__(value)}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: to_json(item) for key, item in value.items()}
        return {"$dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
    return _to_tagged(value)


def from_json(value: Any) -> Any:
    """Return the value that `to_json` was given. Raises `ValueError` for what it cannot have written."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    tags = [key for key in value if key.startswith("$")]
    if not tags:
        return {key: from_json(item) for key, item in value.items()}
    if len(value) != 1 or tags[0] not in _READ:
        raise ValueError(f"{tags[0]!r} is not a kind of value")
    return _READ[tags[0]](value[tags[0]])


def _is_plain_json(value: Any) -> Any:
    kinds = (bool, int, str, type(None))
    if type(value) not in kinds:  # an enum or a subclass would come back as its base
        raise TypeError(f"{value!r} is a {type(value).__name__}")
    return value


def _iso_text(value: datetime) -> str:
    """Return the text of a time, unless it is one of pandas that Python cannot read back: NaT, nanoseconds."""
    text = value.isoformat()
    try:
        is_same = datetime.fromisoformat(text) == value
    except ValueError:
        is_same = False
    if not is_same:
        raise TypeError(f"{value!r} is a {type(value).__name__} that a datetime of Python cannot represent")
    return text


def _to_tagged(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return {"$datetime": _iso_text(value)}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, timedelta):
        if getattr(value, "nanoseconds", 0):  # of pandas
            raise TypeError(f"{value!r} is a {type(value).__name__} that a timedelta of Python cannot represent")
        return {"$timedelta": value // timedelta(microseconds=1)}
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, tuple):
        return {"$tuple": [to_json(item) for item in value]}
    raise TypeError(f"{value!r} is a {type(value).__name__}")
