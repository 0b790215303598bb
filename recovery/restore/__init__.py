"""From a savepoint back to a job: restore and clone.

restore.py      Takes a job back to a savepoint; the steps are numbered there.
preview.py      Step 1: what would change, and may it?
interrupted.py  Step 1: what does a restore that was interrupted mean for this one?
confirmed_tables.py  Step 1: which tables may go back, and what confirms it?
exclusive.py    Steps 3 and 4: no other restore, no job, and no process that was paused.
incoming.py     Step 2: the copy beside the checkpoint, under a new epoch.
last_commit.py  Step 2: the last batch stays committed in the new epoch, whatever becomes of Spark's file.
former_epochs.py  Steps 2 and 4: under which transaction ids has the job written before?
intent.py       Step 3: the file that says what was begun, and which step was done last.
superseded.py   Step 3: no job starts from other folders that the same tables were written from.
clone.py        A savepoint as a new job in a new folder.
"""
