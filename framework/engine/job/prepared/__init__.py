"""A batch from its stored state to Spark's log of commits: recorded, and completed as it was recorded.

completion.py    What does a start do with a batch that was begun, and not committed?
lost_files.py    Are the files of a batch that is run again still there?
preparation.py   How is a batch recorded before anything has it?
spark_commit.py  What will Spark log as the commit of the batch that it runs?
"""
