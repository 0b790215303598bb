"""Where savepoints, checkpoints and tables are stored: local disk or S3, and Delta tables.

archive.py        What must a location of savepoints do?
files.py          What must a folder of files do, in which a checkpoint or a table is? And such a folder on a disk.
s3.py             Such a folder under a prefix of an S3 bucket, by boto3: options, errors, retries.
locations.py      Which of them does a path or URL name?
blobs.py          Files of savepoints, stored once under their checksum.
delta_tables.py   A Delta table at the version of a savepoint: is it still there, and a copy of it.
"""
