"""What proves Panekeeper to us: real jobs, broken on purpose and resumed; their tables against independent oracles.

python -m integration_tests.drills runs the matrix, as `make drill` does.

actions.py         What can be done to a job in a drill: run, kill, savepoint, restore, damage, outage
drill_setup.py     What a scenario run needs: its folder, its jobs, a seed
jobs.py            Which jobs are drilled: one for each kind of window, and operators with state
report.py          How the results are shown
runner.py          In which order the drills run, and how each job's result is found
scenario.py        What a scenario is
scenario_input.py  Which files and which clock the jobs of a scenario get, and what happened to them
scenario_run.py    How one scenario is run on some jobs, each run in a process of its own
scenarios.py       Which actions a scenario consists of: the matrix
expected/          What the tables should hold, computed from the input alone, and the comparison
faults/            What breaks a job, and what shows that it was hit
process/           The programs that a drill starts and kills
steps/             Actions that take several programs, or act on running jobs

Start with `integration_tests/drills/scenarios.py`. A drill whose fault or result cannot be confirmed is "unknown", not
passed.
"""
