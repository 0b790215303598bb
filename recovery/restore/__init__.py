"""From a savepoint back to a job: restore and clone.

restore.py      Takes a job back to a savepoint; the steps are numbered there.
checks.py       Step 1: what is in the folder, what would be changed, and may it be?
prune.py        Removes the folders of epochs that are not current.
clone.py        A savepoint as a new job in a new folder.
"""
