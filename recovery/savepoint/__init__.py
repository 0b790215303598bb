"""Savepoints: how they are made, what they consist of, and which ones there are.

create.py             Makes a savepoint; the steps are numbered there.
request.py            Step 0: has a running job commit the batch that the savepoint is made of.
checkpoint_reader.py  Step 1: which files of a checkpoint belong to a batch, and what must change in another folder?
manifest.py           The JSON file that says what a savepoint consists of.
manifest_rules.py     Which content may it have? Anyone may have written it.
signature.py          Was it written by somebody with the key?
decode.py             Step 3: decodes every stored value of a copy, as the job would.
state_reader.py       Reads the state of a checkpoint with Spark.
checkpoint_copy.py    Writes a savepoint as a checkpoint, each file checked.
catalog.py            The savepoints of a location: list, show, verify, prune.
activity.py           Which savepoints and prunes are in progress in a location?
retention.py          Do the tables keep old versions long enough?
overlap.py            Refuses a location within a checkpoint, and a checkpoint within a location.
"""
