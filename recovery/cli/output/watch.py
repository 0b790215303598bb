"""How `--watch` shows a result again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from panekeeper.recovery.cli.subcommand import ExitCode

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(look: Callable[[], ExitCode], *, every: float, sleep: Callable[[float], None] = time.sleep) -> ExitCode:
    """Call `look` until Ctrl-C, and return its last exit code. A terminal is cleared before each result.

    Args:
        look: prints a result; one that prints an error is called again, too.
        every: seconds between the calls.
        sleep: called with a number of seconds to wait.
    """
    code = ExitCode.DONE
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            code = look()
            sys.stdout.flush()
            sleep(every)
    except KeyboardInterrupt:
        return code
