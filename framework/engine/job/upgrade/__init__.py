"""A job that goes on with a changed declaration, or other code. Which changes keep the state is in `state/upgrade/`.

changed_code.py   May a batch that was begun be run again by other code, or to other tables?
start.py          When may a start change the declaration, and in which steps is that recorded?
table_columns.py  Which columns do the tables get, and which have they of earlier declarations?
"""
