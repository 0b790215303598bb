"""A job as another process sees it.

lease.py       Does a job run on this checkpoint now?
record.py      Which job does a checkpoint belong to?
tables.py      Do its tables fit it?
batch_versions.py  Which version of each of them goes with a batch?
job_status.py  What does the status of a job consist of?
status.py      How is it read?
health.py      Is the job well, and why not?
fleet.py       Which jobs are under these folders?
remote.py      How does another process drain a job?
"""
