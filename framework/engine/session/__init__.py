"""The Spark session that jobs run in, and Spark's files and errors.

session.py           Which settings does the Spark session of jobs have, and why?
settings.py          Which settings can a job not do without, and with how many tasks does a checkpoint begin?
environment.py       Can this machine run Panekeeper, and if not, what must be installed?
java_libraries.py    With which Java libraries does a session start, and with which home of Spark?
java_output.py       What of what Java prints goes to the terminal?
s3_settings.py       Which settings reach checkpoints and tables on S3?
kafka.py             Are topics there, and what do errors of Kafka mean?
checkpoint_files.py  How are the small files of a checkpoint written, and not any more once its lease is lost?
spark_folder.py      How are small files written where Spark keeps a checkpoint, the way Spark does it?
python_workers.py    What do the Python processes do first that Spark starts?
spark_errors.py      Which error of Panekeeper is an error of Spark?
columns.py           How is the name of a column quoted, and what is its type in Arrow?
"""
