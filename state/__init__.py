"""What survives a stop: durable records, their bytes, and where they are kept. Imports neither other package.

records.py      every durable field of a key group, in one place
codec.py        how tables and headers become checked, versioned bytes
store.py        the store protocol, and the store in memory
spark_store.py  the same protocol on Spark's state store
fingerprint.py  is this the job that wrote the checkpoint?
errors.py       the root of the exception tree
"""
