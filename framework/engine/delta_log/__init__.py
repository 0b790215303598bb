"""Delta's own log of a table.

read.py    What does it say? Through Spark.
damage.py  What of it is damaged, or of the files that it names?
"""
