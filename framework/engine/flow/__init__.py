"""The streaming plan of a job.

stream_columns.py  Which stream and which of its columns does a declaration mean?
intake.py          Which columns fit what they are declared as, and how do rows become what is packed?
row_checks.py      Which rows are refused, and why; when did a row arrive?
packing.py         How do rows become segments for key groups, and where do they stand in the order of arrival?
stream_clock.py    How does the clock of declared arrival times pass for all key groups?
control_stream.py  How do time and commands reach every key group?
ordering.py        In which order does a key group process a batch?
processor.py       How does Spark's worker run a key group?
pipeline.py        How are the stages connected to one plan?
"""
