"""Values of a user's own that are kept with the state: typed, readable by any version, no pickle.

JSON where it is faithful, a tagged object where it is not: `{"$bytes": ...}`, `{"$datetime": ...}`. Arrow tables travel
beside them. What has no such form is refused when it is written, not found broken when it is read.
"""

from __future__ import annotations

import base64
import copy
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

_READ: dict[str, Callable[[Any], Any]] = {
    "$bytes": base64.b64decode,
    "$datetime": datetime.fromisoformat,
    "$local": lambda parts: _local_time(*parts),
    "$named": lambda parts: _with_name(*parts),
    "$date": date.fromisoformat,
    "$timedelta": lambda us: timedelta(microseconds=us),
    "$decimal": Decimal,
    "$float": float,
    "$np.float64": np.float64,
    "$pd.Timestamp": lambda parts: _of_pandas("Timestamp", *parts),
    "$pd.Timedelta": lambda parts: _of_pandas("Timedelta", *parts),
    "$tuple": lambda items: tuple(from_json(item) for item in items),
    "$dict": lambda pairs: {from_json(key): from_json(value) for key, value in pairs},
}

_YEARS = range(1900, 2101)
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

    Also what is computed with it is the same then: a time keeps its zone, not only its offset. What would come back as
    something else, as a subclass would as its base, is refused, since whoever wrote it would go on otherwise in the
    next micro-batch than in this one.

    Raises `TypeError` for what has no such form.

    >>> to_json({"seen": (1, b"x")})
    {'seen': {'$tuple': [1, {'$bytes': 'eA=='}]}}
    """
    if type(value) in _AS_THEY_ARE:
        return value
    write = _WRITE.get(type(value)) or _WRITE_PANDAS.get(f"{type(value).__module__}.{type(value).__name__}")
    if write is None:
        raise TypeError(f"{value!r} is a {type(value).__name__}")
    return write(value)


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


def _of_float(value: float) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _of_dict(value: dict[Any, Any]) -> Any:
    if all(type(key) is str and not key.startswith("$") for key in value):
        return {key: to_json(item) for key, item in value.items()}
    return {"$dict": [[to_json(key), to_json(item)] for key, item in value.items()]}


def _of_datetime(value: datetime) -> Any:
    zone = value.tzinfo
    key = zone.key if isinstance(zone, ZoneInfo) else None
    if zone is not None and key is None:
        if type(zone) is not timezone and not _is_fixed(zone):
            raise TypeError(
                f"the zone of {value!r} has no name by which it could be read again; use a zoneinfo.ZoneInfo, or UTC"
            )
        name = zone.tzname(value)
        if name != timezone(value.utcoffset() or timedelta()).tzname(value):
            return {"$named": [value.isoformat(), value.fold, name]}
    if key is None and not value.fold:
        return {"$datetime": value.isoformat()}
    local = value if key is None else value.replace(tzinfo=None)
    return {"$local": [local.isoformat(), value.fold, key]}


@lru_cache(maxsize=256)
def _is_fixed(zone: tzinfo) -> bool:
    """Return whether a zone of some library has one offset and name, so that a fixed offset can take its place."""
    if zone.utcoffset(None) is None:
        return False
    times = (datetime(*month, 15, tzinfo=zone) for month in product(_YEARS, range(1, 13)))
    return len({(instant.utcoffset(), instant.tzname(), instant.dst() or timedelta()) for instant in times}) == 1


def _local_time(text: str, fold: int, key: str | None) -> datetime:
    local = datetime.fromisoformat(text).replace(fold=fold)
    return local if key is None else local.replace(tzinfo=ZoneInfo(key))


def _with_name(text: str, fold: int, name: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value.replace(fold=fold, tzinfo=timezone(value.utcoffset() or timedelta(), name))


def _of_pandas_time(value: Any) -> Any:
    time = _in_python(value, "nanosecond", "to_pydatetime", "datetime")
    return {"$pd.Timestamp": [_of_datetime(time), value.unit]}


def _of_pandas_duration(value: Any) -> Any:
    duration = _in_python(value, "nanoseconds", "to_pytimedelta", "timedelta")
    return {"$pd.Timedelta": [_of_timedelta(duration), value.unit]}


def _in_python(value: Any, rest: str, convert: str, kind: str) -> Any:
    """Return a value of pandas as one of Python, by its method; `rest` is what Python would cut off."""
    with suppress(ValueError, OverflowError):  # it is out of Python's range
        if not getattr(value, rest):
            return getattr(value, convert)()
    raise TypeError(f"{value!r} is a {type(value).__name__} that a {kind} of Python cannot represent")


def _of_pandas(kind: str, value: Any, unit: str) -> Any:
    import pandas as pd  # whoever has written such a value has loaded it; others need not

    return getattr(pd, kind)(from_json(value)).as_unit(unit)


def _of_timedelta(value: timedelta) -> Any:
    return {"$timedelta": value // timedelta(microseconds=1)}


_AS_THEY_ARE = (type(None), bool, int, str)
_WRITE: dict[type, Callable[[Any], Any]] = {
    float: _of_float,
    list: lambda value: [to_json(item) for item in value],
    dict: _of_dict,
    bytes: lambda value: {"$bytes": base64.b64encode(value).decode()},
    datetime: _of_datetime,
    date: lambda value: {"$date": value.isoformat()},
    timedelta: _of_timedelta,
    Decimal: lambda value: {"$decimal": str(value)},
    tuple: lambda value: {"$tuple": [to_json(item) for item in value]},
    np.float64: lambda value: {"$np.float64": float.__repr__(value)},
}
"""How the values of exactly these types are written."""
_WRITE_PANDAS: dict[str, Callable[[Any], Any]] = {
    "pandas._libs.tslibs.timestamps.Timestamp": _of_pandas_time,
    "pandas._libs.tslibs.timedeltas.Timedelta": _of_pandas_duration,
}
