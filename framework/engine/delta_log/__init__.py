"""Delta's own log of a table.

read.py        What does it say? Through Spark.
commits.py     Its commits, as files.
damage.py      Which of them has a power cut damaged, and what is there to do?
lost_files.py  Which files of rows are gone, or cut short?
"""
