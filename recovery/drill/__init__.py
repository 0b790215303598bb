"""Restart drills: break real jobs on purpose, resume them, and compare their tables with the expected ones.

actions.py            What can be done to a job in a drill: run, kill, savepoint, restore, damage, outage
changed_code.py       How some jobs are started with other code, and what they have rejected since
drill_setup.py        What a scenario run needs: its folder, its jobs, a seed
jobs.py               Which jobs are drilled: one for each kind of window, and operators with state
maintained_tables.py  How the tables of some jobs are compacted, vacuumed and altered
paused_jobs.py        How the process of some jobs is paused while another one runs them, and how it ends
reduced_scenarios.py  The reduced matrix
reference.py          What the tables of a user's own job hold after a run without a fault
report.py             How the results are shown: as a table, as JSON-able fields, as a page of HTML
runner.py             Which drills there are, in which order they run, and how each job's result is found
savepoint_runs.py     How savepoints of some jobs are made and restored, in a folder or a store that fails
scenario_run.py       How one scenario is run on some jobs, each run in a process of its own
scenarios.py          Which actions a scenario consists of: the full matrix
expected/             What the tables should hold, computed from the input alone, and the comparison
faults/               What breaks a job, and what shows that it was hit
process/              The programs that a drill starts and kills

Start with `recovery/drill/scenarios.py`. A drill whose fault or result cannot be confirmed is "unknown", not passed.
"""
