"""The command `panekeeper`.

drill.py      The subcommand `drill`: break jobs on purpose and see what they bear. What it does is in
jobs.py       The subcommands `status` and `drain`: a job looked after from another process. What they do is in
main.py       The command `panekeeper`: what an operator of jobs does from outside, on a running or a stopped
restore.py    The subcommands `restore` and `clone`
savepoint.py  The subcommands around savepoints: what is typed, and what is told
upgrade.py    The subcommands `plan` and `rescale`: what a change would do to a stopped job, and one that keeps
"""
