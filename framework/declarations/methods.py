"""What do methods of a user's object have in common? They are called as plain functions, and few return something.

A generator function and an `async def` do nothing when they are called, and what a method returns that is to return
nothing goes nowhere. Both would lose results, or state, without a word.
"""

from __future__ import annotations

import inspect
import reprlib

from panekeeper.framework.declarations.errors import DeclarationError


def require_plain_methods(instance: object, base: type, instead: str) -> None:
    """Raise `DeclarationError` if a method of `base` is a generator function or asynchronous in the user's object.

    Args:
        instance: an object of the user's.
        base: the class or protocol whose methods are called.
        instead: what to do in such a method, as the end of a sentence.
    """
    declared = [name for kind in base.__mro__[:-1] for name, member in vars(kind).items() if inspect.isfunction(member)]
    for name in dict.fromkeys(declared):
        if not name.startswith("_"):
            require_plain(getattr(instance, name, None), f"{type(instance).__name__}.{name}()", instead)


def require_plain(function: object, what: str, instead: str) -> None:
    """Raise `DeclarationError` if a function of the user's is a generator function or asynchronous.

    Args:
        function: the function.
        what: its name in the message.
        instead: as for `require_plain_methods`.
    """
    if inspect.isgeneratorfunction(function):
        kind = "a generator function (it has a yield)"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        kind = "asynchronous (async def)"
    else:
        return
    raise DeclarationError(f"{what} is {kind}, of which a call does nothing; make it a plain function, and {instead}")


def unwanted_result(method: str, returned: object, instead: str) -> str:
    """Return what to say of a method that has returned something, which goes nowhere.

    >>> unwanted_result("Spread.handle_event()", {"n": 1}, "emit rows by emit(...)")
    "Spread.handle_event() returned {'n': 1}, which goes nowhere; emit rows by emit(...)"
    """
    return f"{method} returned {reprlib.repr(returned)}, which goes nowhere; {instead}"
