"""What a drill does to a job: kills, damage, failing stores.

barrier.py    Where the jobs of a program wait for each other, so that one kill meets all of them at the same
damage.py     The damage that is not a kill: files overwritten or removed, a disk that is full
defects.py    What a drill must notice: a sink that is not idempotent, one that loses a commit, and a store
evidence.py   What shows that a kill hit a job: the batch that its checkpoint holds half done. Needs no Spark
faulty_s3.py  An S3 that lives in this process, behind a door that can be shut for a while, or stick
"""
