"""What a Python function, class or object computes, as a short text: the same in each process, another for other code.

Compared are the bytecode, constants and defaults of functions, what they close over, the module globals that they name,
what they import when they run, the methods and values of classes, and the attributes of objects. Left out is what the
source does not decide: file names, line numbers, addresses, and the order of sets and dicts, which the seed of Python's
hashes may decide. Of the standard library and of installed packages only names count, except of the package that the
digested code is from. Not seen is what is looked up by a text (`getattr(module, name)`, `eval`).
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import struct
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import pyarrow as pa

from state.code_names import file_of, imported, imports_in, names_in

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
_DESCRIPTORS = (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
_OF_ENUM = {"_member_map_", "_value2member_map_", "_hashable_values_", "_unhashable_values_", "_unhashable_values_map_"}
"""Attributes by which an Enum leads to its members."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MAX_DEPTH = 80  # what is nested deeper counts by its type


def digest(value: Any) -> str:
    """Return a text for what `value` computes or holds.

    >>> digest({1: {"a", "b"}}) == digest({1: {"b", "a"}}), digest(1) == digest(2)
    (True, False)
    """
    return PREFIX + _Forms(_package_of(value)).of(value)


def digests_of_parts(value: object) -> dict[str, Any]:
    """Return the digest of an object's class, as "", and its attributes by name: numbers as they are.

    A text may be a password, and what is returned is stored and shown: so texts are digested like all else.

    >>> class Limit:
    ...     def __init__(self, most):
    ...         self.most = most
    >>> digests_of_parts(Limit(5))["most"]
    5
    """
    package = _package_of(value)  # not that of an attribute, which may be of any installed one
    attributes = {
        name: one if _is_number(one) else PREFIX + _Forms(package).of(one) for name, one in _attributes(value)
    }
    return {"": digest(type(value)), **attributes}


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))


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
            (Enum, lambda one: f"{one.name} {self.of(one.value)}"),  # its class has its members by their values alone
            (_PLAIN, lambda one: f"{type(one).__name__} {one!r}"),
            (defaultdict, lambda one: self._all((one.default_factory, dict(one)))),
            ((dict, MappingProxyType), lambda one: self._unordered(map(self._all, one.items()))),
            (SimpleNamespace, lambda one: self.of(vars(one))),
            ((set, frozenset), lambda one: self._unordered(map(self._alone, one))),
            ((tuple, list, deque), self._all),
            (np.ndarray, lambda one: self._all((one.dtype.str, one.shape, _content(one)))),
            ((pa.Array, pa.ChunkedArray, pa.Table), lambda one: self._all((_type_of(one), one.to_pylist()))),
            (CodeType, lambda one: self._all(getattr(one, name) for name in _CODE_FIELDS)),
            (FunctionType, self._function),
            (type, self._class),
            ((classmethod, staticmethod), lambda one: self.of(one.__func__)),
            (MethodType, lambda one: self._all((one.__func__, one.__self__))),
            (property, lambda one: self._all((one.fget, one.fset, one.fdel))),
            (functools.cached_property, lambda one: self.of(one.func)),
            ((functools.partial, functools.partialmethod), lambda one: self._all((one.func, one.args, one.keywords))),
            ((BuiltinFunctionType, MethodWrapperType), self._builtin),
            (_DESCRIPTORS, lambda one: f"{one.__objclass__.__module__}.{one.__qualname__}"),
            (pa.Scalar, lambda one: self._all((str(one.type), one.as_py()))),
            (struct.Struct, lambda one: one.format),
            (ModuleType, lambda one: one.__name__),
            (re.Pattern, lambda one: f"{one.pattern!r} {one.flags}"),
        ]

    def of(self, value: Any) -> str:
        """Return the hash of a value's text."""
        if type(value) in _PLAIN:
            return _hashed(f"{type(value).__name__} {value!r}")
        known = self._hashes.get(id(value), "")
        if known or len(self._hashes) - len(self._kept) > _MAX_DEPTH:
            return known or _hashed(type(value).__qualname__)
        if known is None:
            return f"recursive {type(value).__qualname__} {getattr(value, '__qualname__', '')}"
        self._hashes[id(value)] = None
        form = next((form for kind, form in self._kinds if isinstance(value, kind)), self._object)
        found = _hashed(f"{type(value).__qualname__}({form(value)}{self._class_of(value, form)})")
        self._hashes[id(value)] = found
        self._kept.append(value)
        return found

    def _class_of(self, value: Any, form: Callable[[Any], str]) -> str:
        """Return the text of the user's own class of a value that has the form of a list, a dict, a number, ..."""
        kind = type(value)
        return (
            ""
            if form == self._object or isinstance(value, type) or self._is_foreign(kind.__module__)
            else self.of(kind)
        )

    def _all(self, values: Iterable[Any]) -> str:
        return ", ".join(map(self.of, values))

    def _unordered(self, forms: Iterable[str]) -> str:
        return ", ".join(sorted(forms))

    def _alone(self, value: Any) -> str:
        """Return the hash of one of several values, none of which is the first: no other one is known before."""
        if type(value) in _PLAIN:  # most sets are of such
            return self.of(value)
        known, kept = dict(self._hashes), list(self._kept)
        found = self.of(value)
        self._hashes, self._kept = known, kept
        return found

    def _builtin(self, function: Any) -> str:
        owner = getattr(function, "__self__", None)  # of `pattern.match` the pattern
        name = f"{getattr(function, '__module__', None)}.{function.__qualname__}"
        return name if owner is None or isinstance(owner, ModuleType) else self._all((name, owner))

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
        names = sorted(set(names_in(function.__code__)))
        seen: set[str] = set()
        for name in names:
            if name in function.__globals__:
                value = function.__globals__[name]
                yield name, value
                yield from self._members(value, names, seen)
        for name, taken in sorted(imports_in(function).items()):
            if not self._is_foreign(name) and name not in seen:
                yield from self._members(imported(name, taken), names, seen)

    def _members(self, module: Any, names: list[str], seen: set[str]) -> Iterator[tuple[str, Any]]:
        """Yield what has one of these names in a module, and in the modules that it has under such names."""
        if not isinstance(module, ModuleType) or module.__name__ in seen or self._is_foreign(module.__name__):
            return
        seen.add(module.__name__)
        for name in names:
            if name in vars(module):
                value = vars(module)[name]
                yield f"{module.__name__}.{name}", value
                yield from self._members(value, names, seen)

    def _class(self, kind: type) -> str:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if self._is_foreign(kind.__module__):
            return name
        members = {
            member: one
            for member, one in vars(kind).items()
            if not _is_dunder(member) or isinstance(one, FunctionType | classmethod | staticmethod)
        }
        if issubclass(kind, Enum):  # a member leads to its class, and that must not lead back
            members = {name: one.value if isinstance(one, kind) else one for name, one in members.items()}
            members = {name: one for name, one in members.items() if name not in _OF_ENUM}
        made_by = () if self._is_foreign(type(kind).__module__) else (type(kind),)
        return f"{kind.__qualname__} {self._all((kind.__bases__, members, *made_by))}"

    def _object(self, value: object) -> str:
        kind = type(value)
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            return self.of(wrapped)
        if not self._is_foreign(kind.__module__):
            return self._all((kind, dict(_attributes(value))))
        if hasattr(value, "__arrow_c_stream__"):  # a table of pandas or of another package
            return self.of(pa.table(value))
        text = repr(value) if kind.__repr__ is not object.__repr__ and value is not os.environ else ""
        name = getattr(value, "__name__", "")  # as of a function of numpy
        return f"{kind.__module__} {name if text.startswith('<') else _ADDRESS.sub('', text)}"

    def _is_foreign(self, module: str | None) -> bool:
        """Return whether code counts by its name: that of Python, of this library, and of other installed packages."""
        package = str(module).partition(".")[0]
        if package in sys.stdlib_module_names:
            return True
        file = file_of(str(module))
        if file is None:
            return False
        if str(file.resolve()).startswith(_LIBRARY):
            return True
        return package != self._own_package and not _INSTALLED.isdisjoint(file.parts)


def _content(values: np.ndarray) -> object:
    """Return all values: the text of a large array has only its ends."""
    return values.tolist() if values.dtype.hasobject else hashlib.sha256(values.tobytes()).hexdigest()


def _type_of(values: Any) -> str:
    return str(values.schema if isinstance(values, pa.Table) else values.type)


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
