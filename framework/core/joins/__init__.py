"""Joins of two ports, by key group.

matching.py    which pairs of rows match: equal in the columns of the join, and near enough in time?
kept_rows.py   which rows of a port are kept for partners to come, and which of them have had one?
panes.py       how does one batch of a join of panes run: both ports as one window, joined where it fires?
within.py      how does one batch of an interval join run: match, keep, give up; what has a result of the two?
"""
