"""Joins of two ports, by key group.

equal.py       which rows have equal values in the columns of the join?
matching.py    which pairs of rows match?
kept_rows.py   which rows of a port are kept for partners to come, and which of them have had one?
rows.py        what does a result row have of the two?
panes.py       how does one batch of a join of panes run: both ports as one window, joined where it fires?
within.py      how does one batch of an interval join run: match, keep, give up?
"""
