"""The streaming plan: how a row gets from a DataFrame to a key group, and its results out again.

arrival_time.py      When did a row arrive, as a Spark expression?
batch_checkpoint.py  Which checkpoint is the batch that this task runs, and which watermark has it?
control_stream.py    How do time and commands reach every key group?
input_checks.py      Which streams, and which types of their columns, can be declared?
input_rows.py        How does packing get the rows, and those that were rejected?
intake.py            Which rows of the user's DataFrame are good, and which columns are packed?
ordering.py          In which order does a key group process the packed rows of a batch?
packing.py           How do Arrow batches of rows become segments for each key group?
pipeline.py          How are these stages wired to one streaming plan?
row_checks.py        Which rows are refused, and with which reason?
processor.py         What does Spark's stateful processor do with one key group in one batch?
stream_clock.py      How does the clock of declared arrival times pass in all key groups?
"""
