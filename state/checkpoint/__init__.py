"""The checkpoint folder: the name and content of every file in it that is not written by Spark. Pure: no Spark.

claims.py           Who holds the lease, of two that start at the same time?
clock.py            What time is it, and how long does a caller wait?
compatibility.py    Can a job with a changed declaration continue from the stored state?
control_files.py    How do time and commands get into the control stream?
epochs.py           Which epoch is current, how does the next one begin, and become current in one step?
fingerprint.py      In which fields do two declarations differ?
folder.py           What can be done with the small files of a checkpoint, wherever it is?
job_record.py       Which job is this the checkpoint of, which tables does it write, is it finished?
last_savepoint.py   Which savepoint of the job is the newest?
layout.py           What is each file and folder of a checkpoint called?
owner.py            Which job holds the lease, and how did the last one end?
process.py          Does a process still run?
run_record.py       How often was the job started, which batch was interrupted, what do its sources read?
"""
