"""The Spark session that jobs run in, and the files and errors of Spark.

checkpoint_files.py  Small files beside Spark's own in the checkpoint folder, written and read the way Spark
environment.py       Decides whether this machine can run Panekeeper at all, and says in one line what to
file_manager.py      Which of Spark's file managers writes the files of a checkpoint, by where the checkpoint
jars.py              Keeps the Java libraries of Delta and S3 in a folder of this machine: only the first start
local_cache.py       Folders that are made once and kept on this machine: Java libraries, a view of Spark
python_worker.py     What a Python process that Spark starts should know about itself
s3_settings.py       Checkpoints and tables on S3, by Hadoop's file system `s3a`: what a session and a query
session.py           Builds the Spark session that Panekeeper's jobs run in: one place for every setting, each
spark_errors.py      What went wrong, in one sentence: Spark's errors translated to those of the tree in
spark_home.py        A view of the installed Spark without its packed Python sources, so that Python workers
"""
