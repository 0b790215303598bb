"""Policies of windows in arrival order: eviction, trigger, partition eviction; one file a policy.

To add a policy: docs/add-a-policy.md.

protocol.py         What a policy is at run time: the roles that it may have
registry.py         Which implementation each declared policy has
evaluate.py         What follows from the policies of a window in one round
tumbles.py          Where a tumbling window tumbles, as a table
row_eviction.py     Eviction from a sliding window that is decided row by row
count.py            A number of rows
time.py             Wall-clock time
delta.py            A difference in an attribute
punctuation.py      A mark in the stream
partition_age.py    Partition eviction by the clock
partition_count.py  Partition eviction by the number of partitions
tuple_count.py      Partition eviction by the number of rows
user.py             A policy that a user writes
"""
