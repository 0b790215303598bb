"""A change of a stopped job: can it resume with it, and how is it rescaled?

check.py      Can a job as it is declared now resume from a savepoint?
job_file.py   Loads the declaration of a job from a Python file, and starts nothing.
rescale.py    Changes the number of shuffle partitions of a stopped job.
"""
