"""What is stored with a checkpoint: records, their bytes, and where they are kept. Imports no other package of ours.

checkpoint/       Which files does a checkpoint have beside Spark's, and what is in them?
codec.py          How do tables and headers become checked, versioned bytes?
compatibility.py  Can a job with a changed declaration continue from the stored state?
duration_text.py  How is a duration shown?
errors.py         What is the root of all errors, and what can be wrong with stored state?
handler.py        What is a user's state handler, and when is it called?
history.py        What have earlier declarations left in state and tables, as `job.json` records it?
key_groups.py     Which ids spread the key groups evenly over shuffle partitions?
log.py            What are Panekeeper's loggers called, and which fields do their records have?
own_paths.py      Which of Spark's files have the full name of the checkpoint, and what are they in another folder?
prepared.py       What does a batch write, recorded before anything has it?
records.py        Which fields of a key group are stored?
snapshots.py      Do the names in a snapshot of Spark's state stay within its folder?
spark_files/      What have the key groups stored, read in Python from the files of Spark's state store?
spark_logs.py     What do Spark's own logs of a checkpoint say of its batches?
spark_store.py    How is a key group kept in Spark's state store?
store.py          What does a store offer, and how is one kept in memory?
table_roles.py    Which tables does a job have, and what is each for?
user_values.py    Which values can a state handler store?
"""
