"""Savepoints: made, listed, verified, pruned.

activity.py           Who is at work in a location: savepoints being made, prunes. Blobs without a manifest
catalog.py            The savepoints of a location: list them, look at one, verify it, and remove old ones.
checkpoint_copy.py    Turns a savepoint back into a checkpoint, each file checked on its way
checkpoint_reader.py  A job's checkpoint, read as files: which batch it stands at, and what belongs to it as of
create.py             Makes a savepoint: a verified copy of a job's checkpoint, with the versions of its tables
decode.py             Reads what a savepoint holds as its job would: Spark reads the copy, and each stored
manifest.py           What a savepoint consists of: one JSON file, written last, so a savepoint is complete or
overlap.py            A checkpoint and a place for savepoints must not lie within one another: what is done to
request.py            Asking a running job for the batch that a savepoint is made of
retention.py          Will the tables of a savepoint still hold its version when it is wanted? Delta keeps old
state_reader.py       Reads all that a checkpoint's state holds, through Spark, and decodes each value
"""
