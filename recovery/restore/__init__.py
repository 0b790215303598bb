"""Restore and clone: from a savepoint back to a job.

clone.py        A job beside itself: a savepoint's checkpoint and copies of its tables in a new folder. Touches
intent.py       What a restore has begun, and how far it is: one file beside the checkpoint, while it lasts
interrupted.py  A restore that was interrupted: it is completed by the same call, or another one takes its place
preview.py      What a restore would change, and whether it may: looked at before anything is touched
restore.py      Takes a job back to a savepoint: its state, its place in the sources and its tables, together
superseded.py   The other checkpoints of a job whose savepoint goes to another folder. Its tables fit that one
"""
