"""What the tables of a job have, for whoever asks: without Spark, wherever that can be.

rows.py     Which rows does a table have? Those with some times, those of some files, or the newest.
written.py  Which batch has written which files and rows of a table?
"""
