"""The command `panekeeper`.

main.py        The table of subcommands; runs one, prints its result, returns the exit code.
subcommand.py  What a subcommand consists of, and what its exit code means.
arguments.py   Arguments that several subcommands take.
text.py        How amounts, durations and progress are written.
status.py      `status` and `jobs`.
drain.py       `drain`.
savepoint.py   `savepoint`, `savepoints`, `show`, `verify` and `prune`.
offsets.py     `offsets`.
restore.py     `restore` and `clone`.
maintain.py    `maintain`.
upgrade.py     `plan` and `rescale`.
drill.py       `drill`.
doctor.py      `doctor`.
output/        How are results and errors printed?
"""
