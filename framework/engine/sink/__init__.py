"""From the output of one micro-batch to Delta tables, exactly once.

batch_output.py  What one micro-batch did: the packed output of the stateful plan, added up and, where it is
delta_sink.py    The sink: one micro-batch into Delta, exactly once, through a crash at any point
downtime.py      The downtime report: what an outage did, as a row of a Delta table and as lines to read
fault_points.py  Fault points: places in the driver where a drill or a test triggers a fault; inert unless armed
small_commits.py         Commits of a few rows to a Delta table, without a Spark job
small_commit_checks.py   Whether the library that makes them can write a table: protocol, properties, columns
small_commit_storage.py  How that library reaches a table: local disks, and S3 as Hadoop's s3a does
small_commit_table.py    One Delta table that this library has open: reads it once, writes to it as it was
tables.py        The Delta tables of a job: which there are, what columns they have, and whether they can take
"""
