"""The files of Spark's state store, read in Python: what the key groups have stored as of a batch, without Java.

What is not exactly as known here is `NotReadable`: a format that is new, a setting that Panekeeper does not make,
damage. Then Spark reads the state, and says what is wrong, if anything is.

versions.py      Which files make the state of each partition, as of a batch?
sorted_table.py  What is in a file of RocksDB?
changelog.py     What has a batch changed, as Spark logs it?
unsafe_rows.py   Which key group, kind, slot and number is a stored key, and which bytes a value?
read_state.py    What have the key groups stored?
group_of_key.py  Which key group does a key belong to?
cursor.py        Numbers and runs of bytes, one after the other; and what cannot be read.
"""
