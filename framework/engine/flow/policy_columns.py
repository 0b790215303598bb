"""With which columns can a policy compute?"""

from __future__ import annotations

from pyspark.sql.types import DataType, DecimalType

from framework.declarations.errors import DeclarationError
from framework.declarations.policy import Policy

_DIGITS = 18
"""Decimals of so many digits are whole numbers of 64 bits."""


def require_subtractable(policy: Policy, name: str, of_column: DataType) -> None:
    """Check the type of a column that a policy reads.

    Args:
        policy: the policy.
        name: the column.
        of_column: its type.

    Raises:
        DeclarationError: it is no number or time, or is not subtracted exactly, or the policy does not take it.
    """
    kind = of_column.typeName()
    if kind not in policy.column_types:
        target = "timestamp" if kind in ("date", "timestamp_ntz") else "double"
        raise DeclarationError(
            f"{type(policy).__name__} computes with {name!r}, which is a {kind}; cast it to integer, double or "
            f'timestamp: df.withColumn("{name}", F.col("{name}").cast("{target}"))'
        )
    if isinstance(of_column, DecimalType) and of_column.precision > _DIGITS:
        cast = f"decimal({_DIGITS},{min(of_column.scale, _DIGITS // 2)})"
        raise DeclarationError(
            f"{type(policy).__name__} computes with {name!r}, which is a {of_column.simpleString()}; it takes decimals "
            f'of up to {_DIGITS} digits: df.withColumn("{name}", F.col("{name}").cast("{cast}"))'
        )
    policy.check_column(kind)
