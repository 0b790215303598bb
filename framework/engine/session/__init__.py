"""The Spark session that jobs run in, and Spark's files and errors.

checkpoint_files.py   How are small files written to a checkpoint the way Spark does it?
cluster_size.py       How many tasks is a new checkpoint made for, where nobody has said it?
columns.py            How is the name of a column quoted?
deferred_processor.py Where is a stateful processor loaded?
environment.py        Can this machine run Panekeeper, and if not, what must be installed?
file_manager.py       Which of Spark's file managers writes the files of a checkpoint?
kafka.py              Can a session read topics of Kafka, and what do its errors mean?
python_worker.py      What does a Python process do first that Spark has started?
required_settings.py  Which settings can a job not do without, and which hold for the life of a checkpoint?
s3_settings.py        Which settings reach checkpoints and tables on S3?
session.py            Which settings does the Spark session of jobs have, and why?
spark_errors.py       Which error of Panekeeper is an error of Spark?
stored_state.py       What is in the state of a checkpoint, as of its last committed batch?
java/                  Which Spark and which Java libraries does a session start with?
"""
