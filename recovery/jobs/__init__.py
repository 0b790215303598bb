"""A job as another process sees it.

checkpoint.py     Which job does a checkpoint belong to, and does it run there now?
tables.py         Do its tables fit it, and which version of each of them goes with a batch?
gone_tables.py    Which of its tables are gone, and what to do?
recorded_rows.py  Which rows has it read, as the offsets in its checkpoint say?
status.py         How far is the job, is it well, and can it resume?
fleet.py          Which jobs are under these folders?
drain.py          How is it drained from another process?
"""
