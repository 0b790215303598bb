"""The tables of a job, and what its checkpoint knows of them.

table_checks.py  Are they its own, in their roles, with its batches and no others?
table_record.py  Do they have what the checkpoint has written to them?
"""
