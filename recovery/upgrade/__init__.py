"""Changing a stopped job: can it go on with another declaration, and rescaling it.

check.py     Can a job, as it is declared now, go on from a savepoint? Nothing is started, and nothing is
job_file.py  Loads the declaration of a job from a Python file, and starts nothing
rescale.py   Gives a stopped job another number of shuffle partitions: its stored state is dealt out anew,
"""
