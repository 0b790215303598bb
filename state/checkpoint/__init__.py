"""The checkpoint folder: the name and content of every file in it that is not written by Spark. Pure: no Spark.

claims.py         Of several starts, which one gets the lease, and has it kept it?
clock.py          What time is it, and how long does a caller wait?
control_files.py  How do time and commands get into the control stream, and which of its files has Spark read?
epochs.py         Which epoch is current, how does the next one begin, and become current in one step?
folder.py         What are the small files of a checkpoint called, and how are they read and written, wherever it is?
job_record.py     Which job is this, which tables does it write, what do its sources read?
lease_owner.py    Who holds the lease, and does that process live?
runs.py           How often was the job started, how did the last run end, and what has it reported?
"""
