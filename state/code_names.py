"""Which names a function reads that are not its own: of its module, of modules it names, and of those it imports."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

_BESIDE_THE_CODE = ("EXTENDED_ARG", "CACHE")


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names of globals, attributes and imports in some code and in the functions inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


def imports_in(function: FunctionType) -> dict[str, tuple[str, ...]]:
    """Return the modules that a function imports when it is called -> the names that it takes from each.

    >>> def wide(paths):
    ...     from os.path import join, split
    ...     import json.decoder
    >>> imports_in(wide)
    {'os.path': ('join', 'split'), 'json.decoder': ()}
    """
    found: dict[str, tuple[str, ...]] = {}
    package = function.__globals__.get("__package__") or ""
    for code in _all_code(function.__code__):
        steps = [one for one in dis.get_instructions(code) if one.opname not in _BESIDE_THE_CODE]
        for place, one in enumerate(steps):
            if one.opname == "IMPORT_NAME":  # two constants stand before it: the level, and the names
                level, names = steps[place - 2].argval, steps[place - 1].argval or ()
                with suppress(ImportError):  # a relative import outside of a package fails as the function runs, too
                    name = resolve_name("." * level + one.argval, package) if level else one.argval
                    found[name] = tuple(dict.fromkeys((*found.get(name, ()), *names)))
    return found


def imported(name: str, names: Iterable[str]) -> ModuleType | None:
    """Return a module as a function would import it, None if it cannot be imported here.

    Args:
        name: of the module.
        names: what is taken from it, which may be modules, too.
    """
    try:
        module = importlib.import_module(name)
    except Exception:  # noqa: BLE001 -- any error of the user's module; the workers may have what it needs
        return None
    for one in names:
        if not hasattr(module, one):
            with suppress(Exception):
                importlib.import_module(f"{name}.{one}")
    return module


def file_of(name: str) -> Path | None:
    """Return the file of a module, or that of its package if it is not imported yet; None if there is none."""
    module = sys.modules.get(name)
    if module is not None:
        file = getattr(module, "__file__", None)
        return None if file is None else Path(file)
    with suppress(Exception):
        spec = find_spec(name.partition(".")[0])
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        return next((Path(place) for place in places if place), None)
    return None


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _all_code(inner)
