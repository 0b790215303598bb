"""A job as seen from another process.

lease.py   Does a job run on this checkpoint right now? It says so itself, by its lease
remote.py  A job seen from another process: how it stands, and asking it to drain
"""
