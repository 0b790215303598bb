"""The streaming plan: how a row gets from a DataFrame to a key group, and its results out again.

arrival_time.py      When did a row arrive, as a Spark expression?
batch_checkpoint.py  Which checkpoint is the batch that this task runs, for state handlers?
control_stream.py    How do time and commands reach every key group?
intake.py            Which rows of the user's DataFrame are good, and which columns are packed?
ordering.py          In which order does a key group process the packed rows of a batch?
packing.py           How does an Arrow batch of rows become one segment for each key group?
pipeline.py          How are these stages wired to one streaming plan?
processor.py         What does Spark's stateful processor do with one key group in one batch?
"""
