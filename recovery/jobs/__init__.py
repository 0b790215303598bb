"""A job as another process sees it.

lease.py   Does a job run on this checkpoint now?
remote.py  The status of a job, and how another process drains it.
"""
