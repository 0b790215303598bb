"""Where savepoints, checkpoints and tables are stored: local disk or S3, an archive of a user's own, and Delta tables.

archive.py        What must a storage of savepoints do? The interface for one of your own.
files.py          What must a folder of files do, in which a checkpoint or a table is?
locations.py      Which of them does a path or URL name, and how is a scheme registered?
local_files.py    Files in a local folder: written beside their place, flushed to the disk, renamed.
s3.py             Files under a prefix of an S3 bucket, by boto3: options, errors, retries.
parallel.py       Many small transfers at the same time.
blobs.py          Files of savepoints, stored once under their checksum.
delta_log.py      Which versions does a Delta table have? Read from its log, without Spark.
delta_tables.py   Delta tables at a version: is it still there, restore it, copy it.
delta_versions.py The first two of these without Spark, for tables that the library can write.
"""
