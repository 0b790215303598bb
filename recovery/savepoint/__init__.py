"""Savepoints: how they are made, what they consist of, and which ones there are.

create.py               Makes a savepoint; the steps are numbered there.
checkpoint_snapshot.py  Step 1: which files of a checkpoint belong to it as of a batch?
checkpoint_copy.py      How are the files of a savepoint written into a new folder, and checked on the way?
manifest.py             The JSON file that says what a savepoint consists of, and is checked and signed.
state_reader.py         Step 3: reads the state of a checkpoint with Spark, and decodes every stored value.
catalog.py              The savepoints of a location: list, show, verify, prune.
activity.py             How do savepoints that are being made and a prune keep away from each other?
"""
