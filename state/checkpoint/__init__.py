"""The checkpoint folder: the name and content of every file in it that is not written by Spark. Pure; no Spark.

compatibility.py  What a change of the declaration means for the state that is stored: the one place that
fingerprint.py    Is this the job that wrote the checkpoint? A declaration is flattened to dotted fields and
folder.py         The small files of a checkpoint, told apart from where they lie: what a lease and the command
job_record.py     What a checkpoint says of its job: which one it is, and what must not change while it lives
owner.py          Who runs a job on a checkpoint: what `panekeeper/running.json` says, and whether that is
process.py        Is that process still there? A number alone does not say: the system gives it to another one
"""
