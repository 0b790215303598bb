"""A running job: its start, its run, its lease, its end.

How it starts:

start.py               How does a job start, step by step?
checkpoint_checks.py   Do session, folders and declaration fit the checkpoint?
declaration_record.py  Which declaration is the state of, and how does a start record its own?
calendar_edges.py      Until when have panes of a calendar had rows, where a start brings other data of its zone?
roll_forward.py        What is left to do with the tables when an epoch has begun?
table_checks.py        Do the tables have what the checkpoint has written to them, and nothing more?
take_tables.py         How do tables become those of a start: owned, named, and with all columns?
view_again.py          How is a view filled from its log that a restore has found gone?

How it runs:

run.py                 How is the query of a job started, and what happens in each of its batches?
batch_journal.py       How does one micro-batch get into the tables exactly once, through a crash at any point?
query.py               How is a streaming query triggered, and ended between two batches; what does Spark say of it?
lease.py               How does a job acquire, renew and release its checkpoint, and find out that it has lost it?
own_query.py           Has a query over `transform()` the checkpoint that its declaration was given?

What it answers, and what it is told:

job.py                 What does the job offer that `start()` returns?
status.py              What does a job report of itself: batches, counts, state, and what a drain left open?
backlog.py             How much do its sources still hold?
live.py                How is a job shown while it runs?
first_errors.py        Which errors of rows and functions are told as they happen, and how?
callbacks.py           How do callbacks of `on_batch` get each report once and in order?
commands.py            How is a job stopped, drained and flushed?
reset.py               How does a job go back to its initial state?

How it ends:

ending.py              What ends a job, and how has it ended?
shutdown.py            How does a job end when its process is to end?
"""
