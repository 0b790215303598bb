"""From the output of one micro-batch to Delta tables; the protocol is `framework/engine/job/batch_journal.py`.

batch_output.py   What did one micro-batch do, and where are its rows?
delta_log.py      Which versions does a table have, and how does it go back to one?
delta_tables.py   How are rows committed to a table, once? By the library `deltalake` or by Spark.
downtime.py       What happened while a job was down?
fault_points.py   Where do tests and drills reach into a batch?
fencing.py        How are commits of earlier epochs and other checkpoints refused?
library_rules.py  Which tables may the library write, and how does it reach them?
library_table.py  How does the library commit a few rows, once?
spark_table.py    How does Spark read a table's log and commit, and what if another writer comes first?
table_writer.py   How does what is recorded of a batch get into each table?
tables.py         Which Delta tables does a job write, and can they take its results?
"""
