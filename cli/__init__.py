"""The command `panekeeper`.

main.py      The program: parses, runs a command, prints its result or its error, returns the exit code.
command.py   What a command consists of, what its exit code means, arguments of several.
commands.py  The table of commands: arguments, and what each calls.

A result is a dataclass (`framework/declarations/display.py`): it says itself how it is shown, and what its JSON is.
"""
