"""Where savepoints, checkpoints and tables are stored: local disk or S3, and Delta tables.

archive.py       Where savepoints live: named, immutable files in a local folder or under a prefix of an S3
blobs.py         Contents by their checksum: equal ones are kept once, whichever savepoint brought them; none
delta_log.py     Versions of a Delta table, read from the names and commits in its log. Needs no Spark
delta_tables.py  Delta tables at a recorded version: is it still there, go back to it, copy it. Needs Spark
files.py         A folder of files, on a local disk or on S3: what is asked of the place where a checkpoint or
local_files.py   Files in a local folder: each is written beside its place, flushed to the disk, and then
parallel.py      Many small transfers at once: each costs a round trip or a flush of the disk
s3_bucket.py     A bucket of S3, by boto3: one client with retries and back-off, and what goes wrong, told in
s3_files.py      Files under a prefix of an S3 bucket. An object is there whole or not at all; there are no
s3_retry.py      How long a call to S3 is tried again while the store itself is in trouble. Asked by botocore
"""
