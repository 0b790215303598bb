"""The programs that a drill starts and kills.

cluster.py    How a Spark standalone cluster is started on this host, so that its executors can be killed
launcher.py   How a program is started, how it ended, and which jobs failed in it
messages.py   What a program is to do, and which events it has logged: a JSON file and a file of JSON lines
operator_file.py  The code of one of the operators in a file of its own, and how it is changed
operators.py  The operators of the drilled jobs; a module of its own, for workers import it by name
program.py    The program: runs jobs, or makes and restores savepoints, and can be killed at any point
running_jobs.py  What is done to jobs that run continuously: the disk is filled, or the clock jumps
started_program.py  A program that runs: how it is awaited, paused and continued
"""
