"""The drill of a user's own job: broken on purpose, resumed, and compared with an undisturbed run.

drills.py       Which drills there are, how each of them goes, and whether the tables are right after it
own_process.py  The process that a drill starts: it runs the job, saves or restores it, and breaks where it is told
"""
