"""The programs that a drill starts and breaks.

cluster.py    A Spark standalone cluster on this machine: a master and one worker, whose executors can be killed
launcher.py   Starts the programs of a drill and says how they ended; the errors of jobs are kept by job
messages.py   What the runner asks of a program, and what the program tells: a JSON file each way, and lines as
operators.py  Operators with state of their own, for the drills. In a module of their own: they are sent to the
program.py    The program that a drill breaks: runs jobs in a process of its own, which may be killed at any
user_job.py   A user's own job: its declaration, with results and checkpoint in a scratch folder, and an end
"""
