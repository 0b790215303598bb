"""A running job: its start, its lease, its end.

batch_journal.py      How does one micro-batch get into the tables exactly once, through a crash at any point?
calendar_edges.py     Until when have panes of a calendar had rows, where a start brings other data of its zone?
callbacks.py          How do callbacks of `on_batch` get each report once and in order?
checkpoint_checks.py  Do session, declaration, input files and checkpoint fit together?
job.py                What does the job do that `start()` returns?
lease.py              How does a job acquire, renew and release its checkpoint, and find out that it has lost it?
live.py               How is a job shown while it runs, and how much do its sources still hold?
own_query.py          Has a query over `transform()` the checkpoint that its declaration was given?
query.py              How is a streaming query triggered, and ended between two batches; what does Spark say of it?
reset.py              How does a job go back to its initial state?
roll_forward.py       What is left to do with the tables when an epoch has begun?
shutdown.py           How does a job end when its process is to end?
start.py              How does a job start, step by step?
status.py             What does a job report of itself: batches, counts, state, and what a drain left open?
table_checks.py       Do the tables have what the checkpoint has written to them, and nothing more?
view_again.py         How is a view filled from its log that a restore has found gone?
"""
