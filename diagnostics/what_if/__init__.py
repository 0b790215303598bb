"""What would a job have written with another declaration, over the rows that it has read? Nothing of it is touched.

trial.py             A declaration over the batches of a job, beside what it has written.
advise.py            Which watermark delay has how many rows in time, and what does it cost?
options.py           How is a declaration tried otherwise than it is written?
recorded_input.py    What have the batches read?
on_spark.py          What comes out of a batch on Spark, where it does not fit in memory?
rehearsal.py         What comes out of a batch in memory, by the core that the job runs?
comparison.py        Which results of two runs over the same batches differ?
lateness.py          How late are rows, and how many of them does a delay have in time?
"""
