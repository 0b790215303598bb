"""A running job: its start, its lease, its end.

callbacks.py       Who wants to hear of each batch: callbacks, called with every report once and in order, from
deadline.py        Until when somebody waits: given once, and asked at each step on the way
job.py             The running job: what the user holds after `start()`
launch.py          Everything a job needs to start its query, and to start it again
lease.py           One job at a time on one checkpoint: the lease a job holds from its start to its end
query.py           How a streaming query is triggered, and how it is ended at the boundary between two batches
reset.py           Back to the initial state: a checkpoint forgets everything, and its job begins anew in a new
run_totals.py      The sums of a run: what its batches did, added up in the driver for status and progress
signals.py         Asking a waiting program to end: the first Ctrl-C or SIGTERM is a request, the second one
startup_checks.py  Before anything runs: is this the right session, the right checkpoint, and are the tables
status.py          How a job stands, and what it left open when it was drained
"""
