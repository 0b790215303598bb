"""What one subcommand of `panekeeper` consists of."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Subcommand:
    """One subcommand of `panekeeper`.

    Attributes:
        name: what is typed.
        help: one line for `--help`.
        arguments: declares its arguments on a parser.
        run: called with the parsed arguments; returns the result as JSON-able fields, which `--json` prints.
        format: called with these fields; returns the lines that are printed without `--json`.
        succeeded: called with these fields; whether the exit code is 0. Always, if not given.
    """

    name: str
    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], dict[str, Any]]
    format: Callable[[dict[str, Any]], str]
    succeeded: Callable[[dict[str, Any]], bool] = lambda _: True
