"""The command `panekeeper`.

main.py        The table of subcommands; runs one, prints its result, returns the exit code.
subcommand.py  What a subcommand consists of, what its exit code means, arguments of several.
printing.py    How results, progress and errors are written.
schema.py      What `--json` prints, as JSON schemas.
jobs.py        `status`, `jobs` and `drain`.
savepoint.py   `savepoint`, `savepoints`, `show`, `verify` and `prune`.
offsets.py     `offsets`.
restore.py     `restore` and `clone`.
maintain.py    `maintain`.
upgrade.py     `plan` and `rescale`.
drill.py       `drill`.
doctor.py      `doctor`.
"""
