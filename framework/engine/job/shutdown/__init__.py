"""How a job ends when its process is to end.

program_end.py     What if a program ends that has not waited for its jobs?
signals.py         What do Ctrl-C and SIGTERM do while a job is awaited?
spark_shutdown.py  What happens when the Java side of a submitted program is to end?
"""
