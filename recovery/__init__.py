"""What operates on the checkpoint of a job from outside: savepoints, restore, upgrades, upkeep, settlements, drills.

Imports `framework` and `state`; `diagnostics`, `cli` and `panekeeper` import it. Its folders import in one direction,
each only those above it:

errors.py        What can go wrong here.
rows_as_json.py  What is a row as fields of JSON?
storage/         Where are files kept, and at which version are tables? Local disk, S3, Delta.
jobs/            Does a job run on a checkpoint, what has it read, and how is it drained from another process?
savepoint/       How is a job saved, and what is in a location of savepoints?
kafka.py         Where does a job continue in Kafka, and are its messages still there?
restore/         How does a job go back to a savepoint, or become another job?
upkeep/          How are the tables of a job compacted and vacuumed, so that its savepoints can still be restored?
upgrade/         Can a stopped job resume with another declaration, or with another number of shuffle partitions?
settle/          What do rows that came too late change, and how do they get into the results?
drill.py         Do the tables of a job stay right when it is broken on purpose?
"""
