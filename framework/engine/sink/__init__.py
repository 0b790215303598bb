"""From the output of one micro-batch to Delta tables; the protocol is `framework/engine/job/batch_journal.py`.

batch_output.py      What did one micro-batch do, and where are its rows?
delta_log.py         What does the log of a table say of its commits, and of the table?
delta_tables.py      How are rows committed to a table, once? By the library `deltalake` or by Spark.
downtime.py          What happened while a job was down?
fault_points.py      Where do tests and drills reach into a batch?
fencing.py           How are commits of earlier epochs and other checkpoints refused?
gone_tables.py       What to do about tables that are gone?
library_rules.py     Which tables may the library write, and how does it reach them?
library_table.py     How does the library commit a few rows, once?
spark_table.py       How does Spark read a table and commit, and what if another writer comes first?
table_at_version.py  What is known of a table at one version, whoever has read it?
table_restore.py     How does a table go back to an earlier version?
table_writer.py      How does what is recorded of a batch get into each table?
tables.py            Which Delta tables does a job write, and can they take its results?
"""
