"""Spark's own logs of a checkpoint: whether they can be read, and what they say.

batch_files.py  Which files of these logs was a batch begun with?
checksums.py    Does a file agree with the checksum that Hadoop has written beside it?
lines.py        Which lines has a file of Spark's logs, and is it whole?
offsets.py      What does Spark log of a batch: where its sources have come to, and what it pins?
source_logs.py  Which files has a source found, and which of them has a batch read?
startup.py      Can all that Spark reads when a query starts be read?
"""
