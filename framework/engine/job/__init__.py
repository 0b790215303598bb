"""A running job: its start, its lease, its end.

batch_journal.py   How does one micro-batch get into the tables exactly once, through a crash at any point?
callbacks.py       How do callbacks of `on_batch` get each report once and in order?
claim.py           How does one start alone decide whether it may have the lease?
job.py             What does the job do that `start()` returns?
launch.py          What does a job need to start its query, and to start it again?
lease.py           How does a job acquire, renew and release its checkpoint?
lease_errors.py    What does a job report of its lease: who holds it, that it was lost?
lost_files.py      Are the files of a batch that is run again still there?
progress.py        What does a job report of itself to other processes?
query.py           How is a streaming query triggered, and ended between two batches?
reset.py           How does a job go back to its initial state?
roll_forward.py    What is left to do with the tables when an epoch has begun?
run_end.py         What ends a run: a stop, a drain or a flush?
run_totals.py      What did the batches of a run do, added up?
spark_commit.py    What will Spark log as the commit of the batch that it runs?
start.py           How does a job start, step by step?
startup_checks.py  Do session, checkpoint and declaration fit together?
status.py          What does a job report of itself: state, counts, and what a drain left open?
table_checks.py    Do the tables have what the checkpoint has written to them, and nothing more?
shutdown/          How does a job end when its process is to end?
upgrade.py         How does a job go on with a changed declaration that keeps its state?
"""
