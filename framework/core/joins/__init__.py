"""Joins of two ports, by key group.

matching.py    which pairs of rows match?
kept_rows.py   which rows of a port are kept for partners to come, and which of them have had one?
rows.py        what does a result row have of the two?
within.py      how does one batch of an interval join run: match, keep, give up?
"""
