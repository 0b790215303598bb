"""Can a cluster run jobs, and if not, what is missing where?

machine.py  What do the driver and the executors have: Python, packages, clock?
places.py   Can checkpoints and tables be written to a place, from driver and executors?
checks.py   Which of these facts keep jobs from running?
examine.py  Everything together, for one session.
"""
