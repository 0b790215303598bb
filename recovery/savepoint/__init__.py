"""Savepoints: how they are made, what they consist of, and which ones there are.

create.py             Makes a savepoint; the steps are numbered there.
checkpoint_reader.py  Step 1: which files of a checkpoint belong to a batch, and what must change in another folder?
manifest.py           The JSON file that says what a savepoint consists of, and is checked and signed.
state_reader.py       Step 3: reads the state of a checkpoint with Spark, and decodes every stored value.
checkpoint_copy.py    Writes a savepoint as a checkpoint, each file checked.
catalog.py            The savepoints of a location: list, show, verify, prune.
activity.py           Which savepoints and prunes are in progress in a location?
retention.py          Do the tables keep old versions long enough?
overlap.py            Refuses a location within a checkpoint, and a checkpoint within a location.
"""
