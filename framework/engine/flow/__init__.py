"""The streaming plan of a job.

input_stream.py    What does a declaration ask of a stream before a row is read?
stream_columns.py  Which stream and which of its columns does a declaration mean?
intake.py          What is declared of a stream, and which columns fit what they are declared as?
checked_rows.py    How do rows become what is packed?
row_checks.py      Which rows are refused, and why; when did a row arrive?
refused_rows.py    What does the quarantine get of a row?
packing.py         How do rows become packed rows for key groups, and where do they stand in the order of arrival?
control_stream.py  How do time and commands reach every key group?
processor.py       How does Spark's worker run a key group?
spark_watermark.py What does Spark's watermark say, and when is it reached?
group_report.py    What does a key group tell the driver of a batch, beside its rows?
pipeline.py        How are the stages connected to one plan?
"""
