"""The command `panekeeper`.

main.py        The table of subcommands; runs one, prints its result, returns the exit code.
subcommand.py  What a subcommand consists of.
arguments.py   Arguments that several subcommands take.
text.py        How amounts, durations and progress are written.
jobs.py        `status` and `drain`.
savepoint.py   `savepoint`, `savepoints`, `show`, `verify` and `prune`.
restore.py     `restore` and `clone`.
repair.py      `repair`.
upgrade.py     `plan` and `rescale`.
drill.py       `drill`.
"""
