"""The columns of a user's stream: found as Spark finds them, with the words to say if there is none.

A column is given by its name, in whatever case unless the session is set otherwise, or by a Column that is no more than
one of the stream's. Everything else gets an error that names what was given and what to give.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean
from panekeeper.framework.engine.flow.input_stream import InputStream, SparkStream


class StreamColumns:
    """The columns of a stream, apart from those that Panekeeper has added."""

    def __init__(self, stream: InputStream, added: Collection[str] = ()) -> None:
        self._stream = stream
        self.names = [name for name in stream.schema.names if name not in added]
        self._is_case_sensitive = stream.is_case_sensitive

    def require_distinct(self) -> None:
        """Raise `DeclarationError` for two columns of one name: nobody could say which of them is meant."""
        seen: dict[str, str] = {}
        for name in self.names:
            if self._folded(name) in seen:
                renamed = ", ".join(json.dumps(new_name, ensure_ascii=False) for new_name in self._distinct_names())
                raise DeclarationError(
                    f"the stream has two columns of one name, {seen[self._folded(name)]!r} and {name!r}; "
                    f"rename one: df.toDF({renamed})"
                )
            seen[self._folded(name)] = name

    def find(self, what: str, given: Any) -> str:
        """Return the name of the column that was given; `what` is the option that has it.

        Raises:
            DeclarationError: there is no such column.
        """
        if isinstance(given, Column):
            return self.find(what, self._stream.name_of(what, given))
        if not isinstance(given, str):
            example = f", such as {self.names[0]!r}" if self.names else ""
            raise DeclarationError(f"{what} is {given!r}; give the name of a column{example}")
        plain = given[1:-1].replace("``", "`") if len(given) > 2 and given[0] == given[-1] == "`" else given  # noqa: PLR2004
        for wanted in (given, plain):
            if wanted in self.names:
                return wanted
        same = [name for name in self.names if self._folded(name) == self._folded(plain)]
        if same:
            return same[0]
        if path := self._path_of_field(plain):
            name = plain.replace(".", "_")
            raise DeclarationError(
                f"{what}: {given!r} is a field of the column {path!r}; "
                f'make a column of it: df.withColumn("{name}", F.col("{plain}"))'
            )
        hint = did_you_mean(given, self.names)
        raise DeclarationError(f"{what}: there is no column {given!r}{hint} (columns: {', '.join(self.names)})")

    def find_all(self, what: str, given: Any) -> tuple[str, ...]:
        """Return the names of one column, of a list of them, or of none.

        Raises:
            DeclarationError: as `find`, or a column is given twice.
        """
        if given is None:
            return ()
        is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
        names = tuple(self.find(what, column) for column in given) if is_list else (self.find(what, given),)
        for name in names:
            if names.count(name) > 1:
                raise DeclarationError(f"{what} names the column {name!r} twice; leave one of them out")
        return names

    def _folded(self, name: str) -> str:
        return name if self._is_case_sensitive else name.lower()

    def _distinct_names(self) -> list[str]:
        distinct: list[str] = []
        for name in self.names:
            taken, number, free = {self._folded(earlier_name) for earlier_name in distinct}, 2, name
            while self._folded(free) in taken:
                free, number = f"{name}_{number}", number + 1
            distinct.append(free)
        return distinct

    def _path_of_field(self, name: str) -> str | None:
        """Return the struct column that has a field of this name, `struct.field`; None if there is none."""
        root = next(
            (struct for struct in self.names if self._folded(name).startswith(self._folded(struct) + ".")), None
        )
        if root is None or not isinstance(self._stream.type_of(root), StructType):
            return None
        return root if self._stream.has_field(name) else None


def require_stream(df: Any) -> InputStream:
    """Return what a declaration asks of a streaming DataFrame, or raise `DeclarationError` that says what was given."""
    if isinstance(df, InputStream):
        return df
    if not isinstance(df, DataFrame):
        what = f"{type(df).__module__}.{type(df).__qualname__}".removeprefix("builtins.")
        if isinstance(df, str) or hasattr(df, "__fspath__"):
            read = f'spark.readStream.format("delta").load({json.dumps(str(df))})'
            raise DeclarationError(f"windowed() takes a streaming DataFrame, not the path {str(df)!r}; read it: {read}")
        hint = "; add .load()" if type(df).__name__ == "DataStreamReader" else "; read one with spark.readStream"
        raise DeclarationError(f"windowed() takes a streaming DataFrame, not an object of {what}{hint}")
    if not df.isStreaming:
        raise DeclarationError("windowed() takes a streaming DataFrame; read it with spark.readStream")
    return SparkStream(df)
