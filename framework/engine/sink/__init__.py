"""From the output of one micro-batch to Delta tables; the protocol is `framework/engine/job/batch_journal.py`.

batch_output.py   What did one micro-batch do, and where are its rows?
downtime.py       What happened while a job was down?
fault_points.py   Where do tests and drills reach into a batch?
fencing.py        How are commits of earlier epochs and other checkpoints refused?
library_table.py  Which tables does the library `deltalake` write, how does it reach one, and what does it do there?
small_commits.py  How are a few rows committed to a table without a Spark job, once?
spark_commits.py  How does Spark commit to a table, and what if another writer comes first?
spark_table.py    What does Delta's log say of a table? Through Spark.
table_writer.py   How does what is recorded of a batch get into each table, once?
tables.py         Which Delta tables does a job write, and can they take its results?
"""
