"""Upkeep of the tables of a job: compaction, and removal of files that neither a version nor a savepoint needs.

maintain.py     Compacts and vacuums the tables of a checkpoint; the steps are numbered there.
table_files.py  Which files of one table are small, which are needed by nothing, and how are they compacted or removed?
"""
