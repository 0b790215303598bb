"""Upkeep of the tables of a job: compaction, and removal of files that neither a version nor a savepoint needs.

maintain.py         Compacts and vacuums the tables of a checkpoint; the steps are numbered there.
own_tables.py       Step 1: which tables of the checkpoint may be maintained now?
needed_versions.py  Step 2: which versions of a table must remain readable?
compaction.py       Step 3: compacts a table, by Spark.
delta_files.py      Step 4: which files of a table are needed by nothing? Without Spark.
spark_vacuum.py     Step 4 for a table that only Spark can read: the statement, if it is safe.
report.py           What was done, or would be.
"""
