"""Spark's own logs of a checkpoint: what they say of its batches. Whether all in them is whole, Spark finds out.

offsets.py      What does Spark log of a batch: where its sources have come to, and what it pins?
source_logs.py  Which files has a source found, and which of them has a batch read?
"""
