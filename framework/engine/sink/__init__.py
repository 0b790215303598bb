"""From the output of one micro-batch to Delta tables, exactly once.

batch_output.py  What one micro-batch did: the packed output of the stateful plan, added up and, where it is
delta_sink.py    The sink: one micro-batch into Delta, exactly once, through a crash at any point
downtime.py      The downtime report: what an outage did, as a row of a Delta table and as lines to read
fault_points.py  Fault points: places in the driver where a drill or a test triggers a fault; inert unless armed
tables.py        The Delta tables of a job: which there are, what columns they have, and whether they can take
"""
