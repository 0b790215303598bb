"""Delta's own log of a table.

read.py     What does it say? Through Spark.
commits.py  Its commits, as files.
"""
