"""Delta's own log of a table.

read.py            What does it say? Through Spark.
commits.py         Its commits, as files.
checkpoints.py     Is the newest checkpoint of it whole?
damage.py          What has a power cut damaged, and what is there to do?
lost_files.py      Which files of rows are gone, or cut short?
cleanup.py         Which files of it need not be kept?
written_files.py   What has come to a table since the last look?
file_checksums.py  Is the checksum of a file whole?
"""
