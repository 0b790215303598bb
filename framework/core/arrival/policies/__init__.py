"""Policies of windows in arrival order: eviction, trigger, partition eviction; one file a policy.

To add a policy: docs/add-a-policy.md.

protocol.py         What a policy is at run time: the roles that it may have; where a window tumbles, which rows leave
registry.py         Which implementation each declared policy has
evaluate.py         What follows from the policies of a window in one round
count.py            A number of rows
time.py             Wall-clock time
any_of.py           A number of rows or wall-clock time, whichever is first
all_of.py           A row stays only while both keep it
delta.py            A difference in an attribute
punctuation.py      A mark in the stream
partition_limits.py Partition eviction: by the clock, by the number of partitions, by the number of rows
user.py             A policy that a user writes
"""
