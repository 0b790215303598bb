"""How actions that take several programs, or that a program carries out on running jobs, are done and confirmed.

changed_code.py       How some jobs are started with other code, and what they have rejected since
maintained_tables.py  How the tables of some jobs are compacted, vacuumed and altered
paused_jobs.py        How the process of some jobs is paused while another one runs them, and how it ends
running_jobs.py       How the clock of running jobs jumps, and how their disk is filled while they are idle
savepoint_runs.py     How savepoints of some jobs are made and restored, in a folder or a store that fails
"""
