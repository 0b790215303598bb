"""What the sources of a job read.

backlog.py    Does what a start reads at once fit into memory?
inputs.py     Do the sources of a job read what those of their numbers have read before?
plan.py       What do a stream's sources and its own plan compute, as texts that are the same in each process?
plan_tree.py  What does a plan compute, by Spark's JSON of its tree, whatever numbers its columns have in this process?
streams.py    Which sources has a stream, with which options, and are the files of one there?
"""
