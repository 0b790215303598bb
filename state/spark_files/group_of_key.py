"""Which key group does a key belong to? What Spark answers by `pmod(xxhash64(keys), n)` (`state/key_groups.py`)."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import xxhash

_SEED = 42
_EPOCH = date(1970, 1, 1)


def group_of_key(key: Sequence[pa.Scalar], ids: Sequence[int]) -> int | None:
    """Return the id, one of these, of the key group of a key, by its values; None for a type whose hash Spark knows.

    >>> group_of_key([pa.scalar("UA")], (12, 6, 2, 0)), group_of_key([pa.scalar([1])], (12, 6))
    (0, None)
    """
    if not key:
        return ids[0]
    key_hash = _SEED
    for value in key:
        if value.is_valid:  # the hash of a value is the seed of the next; a null leaves it
            hashed = _hashed(value.type, value)
            if hashed is None:
                return None
            key_hash = xxhash.xxh64_intdigest(hashed, key_hash)
    signed = key_hash - (1 << 64) if key_hash >= 1 << 63 else key_hash
    return ids[signed % len(ids)]


def _hashed(kind: pa.DataType, value: Any) -> bytes | None:
    """Return the bytes of a value that Spark takes for its hash."""
    encoded: bytes | None = None
    if pa.types.is_string(kind):
        encoded = value.as_py().encode()
    elif pa.types.is_binary(kind):
        encoded = value.as_py()
    elif pa.types.is_timestamp(kind):
        encoded = struct.pack("<q", value.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).as_py())
    elif pa.types.is_int64(kind):
        encoded = struct.pack("<q", value.as_py())
    elif pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind):
        encoded = struct.pack("<i", value.as_py())
    elif pa.types.is_date32(kind):
        encoded = struct.pack("<i", (value.as_py() - _EPOCH).days)
    elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
        number = value.as_py()
        number = math.nan if math.isnan(number) else number or 0.0  # all NaN are one value, and both zeros
        encoded = struct.pack("<f" if pa.types.is_float32(kind) else "<d", number)
    return encoded
