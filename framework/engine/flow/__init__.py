"""The streaming plan: how a row passes from a DataFrame through the windows.

arrival_time.py    When a row arrived, as Spark expressions: its own arrival time, or the time of the batch
control_stream.py  The pulse: time and commands as data, delivered to every key group through a small stream of
intake.py          Intake: from the user's streaming DataFrame to the columns that are packed; bad rows are
key_groups.py      Key groups: a fixed number of buckets that share out the keys, and the ids that spread them
ordering.py        In which order a key group hears things: packed rows in any order in, steps out
packing.py         Packing: an Arrow batch of rows becomes one binary segment a key group, before the shuffle
pipeline.py        The streaming plan: intake -> pack, for each port, -> + pulse -> processor, one row a
processor.py       The stateful processor: one key group, one batch; packed rows in, the machine run, packed
run.py             Runs of a job: how often it was started, and which batch it may have to do once more
"""
