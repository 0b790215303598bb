"""What a Python function, class or object computes, as a short text: the same in each process, another for other code.

Compared are the bytecode, constants and defaults of functions, what they close over, the module globals that they name,
the methods and values of classes, and the attributes of objects. Left out is what the source does not decide: file
names, line numbers, addresses, and the order of sets and dicts, which the seed of Python's hashes may decide. Of the
standard library and of installed packages only names count, except of the package that the digested code is from.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

PREFIX = "code:"
"""Every digest begins with this, so that it is not taken for a value."""

_ROOT = Path(__file__).resolve().parents[1]
_LIBRARY = tuple(f"{_ROOT / name}{os.sep}" for name in ("panekeeper", "framework", "state", "recovery"))
_INSTALLED = {"site-packages", "dist-packages"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...))
_CODE_FIELDS = (
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_flags",
    "co_code",
    "co_exceptiontable",
    "co_consts",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
)
_LONGEST_SHOWN = 100  # characters of a text
_MAX_DEPTH = 80  # what is nested deeper counts by its type


def digest(value: Any) -> str:
    """Return a text for what `value` computes or holds.

    >>> digest({1: {"a", "b"}}) == digest({1: {"b", "a"}}), digest(1) == digest(2)
    (True, False)
    """
    return PREFIX + _Forms(_package_of(value)).of(value)


def digests_of_parts(value: object) -> dict[str, Any]:
    """Return the digest of an object's class, as "", and its attributes by name: short values as they are.

    >>> class Limit:
    ...     def __init__(self, most):
    ...         self.most = most
    >>> digests_of_parts(Limit(5))["most"]
    5
    """
    attributes = {name: one if _is_short(one) else digest(one) for name, one in _attributes(value)}
    return {"": digest(type(value)), **attributes}


def _is_short(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, bool | int) or (isinstance(value, str) and len(value) <= _LONGEST_SHOWN)


def _package_of(value: Any) -> str:
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0]


class _Forms:
    """Canonical texts of values. Each is hashed at once, and kept: what many refer to is read once."""

    def __init__(self, own_package: str) -> None:
        self._own_package = own_package
        self._hashes: dict[int, str | None] = {}  # by id; None while it is being read
        self._kept: list[object] = []  # so that no id is used twice
        self._kinds: list[tuple[Any, Callable[[Any], str]]] = [
            (Enum, lambda one: f"{one.name} {self.of(one.value)}"),
            (_PLAIN, lambda one: f"{type(one).__name__} {one!r}"),
            (dict, lambda one: self._unordered(map(self._all, one.items()))),
            ((set, frozenset), lambda one: self._unordered(map(self.of, one))),
            ((tuple, list), self._all),
            (CodeType, lambda one: self._all(getattr(one, name) for name in _CODE_FIELDS)),
            (FunctionType, self._function),
            (type, self._class),
            ((classmethod, staticmethod), lambda one: self.of(one.__func__)),
            (MethodType, lambda one: self._all((one.__func__, one.__self__))),
            (property, lambda one: self._all((one.fget, one.fset, one.fdel))),
            (functools.cached_property, lambda one: self.of(one.func)),
            (functools.partial, lambda one: self._all((one.func, one.args, one.keywords))),
            (BuiltinFunctionType, lambda one: f"{one.__module__}.{one.__qualname__}"),
            (ModuleType, lambda one: one.__name__),
            (re.Pattern, lambda one: f"{one.pattern!r} {one.flags}"),
        ]

    def of(self, value: Any) -> str:
        """Return the hash of a value's text."""
        if isinstance(value, _PLAIN) and not isinstance(value, Enum):
            return _hashed(f"{type(value).__name__} {value!r}")
        known = self._hashes.get(id(value), "")
        if known or len(self._hashes) - len(self._kept) > _MAX_DEPTH:
            return known or _hashed(type(value).__qualname__)
        if known is None:
            return f"recursive {type(value).__qualname__} {getattr(value, '__qualname__', '')}"
        self._hashes[id(value)] = None
        form = next((form for kind, form in self._kinds if isinstance(value, kind)), self._object)
        found = _hashed(f"{type(value).__qualname__}({form(value)})")
        self._hashes[id(value)] = found
        self._kept.append(value)
        return found

    def _all(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self.of, values))

    def _unordered(self, forms: Iterable[str]) -> str:
        return ", ".join(sorted(forms))

    def _function(self, function: FunctionType) -> str:
        if self._is_foreign(function.__module__):
            return f"{function.__module__}.{function.__qualname__}"
        if hasattr(function, "__wrapped__") and self._is_foreign(function.__globals__.get("__name__")):
            return self._all((function.__wrapped__, dict(getattr(function, "registry", {}))))  # as of singledispatch
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        return self._all(
            (function.__code__, function.__defaults__, function.__kwdefaults__, cells, [*self._globals(function)])
        )

    def _globals(self, function: FunctionType) -> Iterator[tuple[str, Any]]:
        """Yield what a function reads from its module, and from modules of its own package by `module.name`."""
        names = sorted(set(_names(function.__code__)))
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                yield name, value
                if isinstance(value, ModuleType) and not self._is_foreign(value.__name__):
                    yield from ((f"{name}.{inner}", vars(value)[inner]) for inner in names if inner in vars(value))

    def _class(self, kind: type) -> str:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._is_foreign(kind.__module__):
            return name
        members = {
            member: one
            for member, one in vars(kind).items()
            if not _is_dunder(member) or isinstance(one, FunctionType | classmethod | staticmethod)
        }
        return f"{kind.__qualname__} {self._all((kind.__bases__, members))}"

    def _object(self, value: object) -> str:
        kind = type(value)
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            return self.of(wrapped)
        if not self._is_foreign(kind.__module__):
            return self._all((kind, dict(_attributes(value))))
        text = repr(value) if kind.__repr__ is not object.__repr__ and value is not os.environ else ""
        return f"{kind.__module__} {'' if text.startswith('<') else text}"

    def _is_foreign(self, module: str | None) -> bool:
        """Return whether code counts by its name: that of Python, of this library, and of other installed packages."""
        package = str(module).partition(".")[0]
        if package in sys.stdlib_module_names:
            return True
        file = getattr(sys.modules.get(str(module)), "__file__", None)
        if file is None:
            return False
        if str(Path(file).resolve()).startswith(_LIBRARY):
            return True
        return package != self._own_package and not _INSTALLED.isdisjoint(Path(file).parts)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    yield from sorted(getattr(value, "__dict__", {}).items())
    slots = {name for kind in type(value).__mro__ for name in _slots(kind)}
    yield from ((name, getattr(value, name)) for name in sorted(slots) if hasattr(value, name))


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if not _is_dunder(name)]


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 -- an empty cell raises
    except ValueError:
        return False
    return True


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
