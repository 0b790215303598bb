"""From the output of one micro-batch to Delta tables, exactly once.

batch/                   What does one micro-batch do, and how does it get into each table?
delta_sink.py            How is a micro-batch written to Delta exactly once, through a crash at any point?
fault_points.py          At which steps is the hook of tests and drills called?
fencing.py               How are commits of earlier epochs and other checkpoints refused?
protocol.py              What must a sink do, the job's and one of the user's own?
small_commits.py         How are a few rows committed to a Delta table without a Spark job?
small_commit_checks.py   Can the library that makes these commits write a table: protocol, properties, columns?
small_commit_storage.py  How does that library reach a table, on local disks and on S3?
small_commit_table.py    What does one Delta table that this library has open look like?
small_tables.py          Which tables of a job take such commits, and which are left to Spark?
spark_commits.py         How does Spark commit to a table, and what if another writer comes first?
table_settings.py        Which properties and rules of a table could lose, double or refuse results?
tables.py                Which Delta tables does a job write, and can they take its results?
"""
