"""Savepoints: how they are made, what they consist of, and which ones there are.

create.py            Makes a savepoint; the steps are numbered there.
checkpoint_files.py  Which files of a checkpoint belong to a batch, and how are they written into a new folder?
manifest.py          The JSON file that says what a savepoint consists of, and is checked and signed.
state_reader.py      Step 3: reads the state of a checkpoint with Spark, and decodes every stored value.
catalog.py           The savepoints of a location: list, show, verify, prune; what is going on in it.
"""
