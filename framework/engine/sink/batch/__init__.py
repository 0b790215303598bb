"""One micro-batch between the stateful plan and the tables.

output.py        What did one micro-batch do, added up over the key groups?
downtime.py      What happened while a job was down?
large_rows.py    How are results recorded that are too many for the driver?
spark_files.py   How are many rows committed on S3, where Spark's own commits may replace others?
table_writer.py  How does what is recorded of a batch get into each table, once?
"""
