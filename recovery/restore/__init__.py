"""From a savepoint back to a job: restore and clone.

restore.py      Takes a job back to a savepoint; the steps are numbered there.
target.py       Step 1: what is in the folder that it is restored to?
preview.py      Step 1: what would change, and may it?
confirmed_tables.py  Step 1: which tables may go back, and what confirms it?
new_epoch.py    Step 3: the savepoint's copy in the folder of a new epoch.
last_commit.py  Step 3: the last batch stays committed in the new epoch, whatever becomes of Spark's file.
prune.py        Removes the folders of epochs that are not current.
clone.py        A savepoint as a new job in a new folder.
"""
