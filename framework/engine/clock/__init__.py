"""The wall clock of a running job: when the windows get the time, and what that leaves behind.

control_cleanup.py  How does the control stream stay small?
tick_scheduler.py   When is the time written to the control stream, and what if the clock jumps or the disk is full?
"""
