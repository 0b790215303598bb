"""A job that goes on with a changed declaration. Which changes keep the state is in `state/upgrade/`.

first_record.py   Which job is a checkpoint of in which no batch was begun?
start.py          When may a start change the declaration, and in which steps is that recorded?
table_columns.py  Which columns do the tables get, and which have they of earlier declarations?
"""
