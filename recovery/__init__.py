"""What operates on the checkpoint of a job from outside: savepoints, restore, upgrades, drills, the command line.

Imports `framework` and `state`; only `panekeeper` imports it. Its folders import in one direction, each only those
above it:

errors.py   What can go wrong here.
storage/    Where are files kept, and at which version are tables? Local disk, S3, Delta.
jobs/       Does a job run on a checkpoint, and how is it drained from another process?
savepoint/  How is a job saved, and what is in a location of savepoints?
kafka.py    Where does a job continue in Kafka, and are its messages still there?
inspector/  What is open in a job, and what does it wait for?
report/     What has a job done, as a page?
restore/    How does a job go back to a savepoint, or become another job?
upkeep/     How are the tables of a job compacted and vacuumed, so that its savepoints can still be restored?
upgrade/    Can a stopped job resume with another declaration, or with another number of shuffle partitions?
replay/     What has a job read, and does the same come out of it again?
settle/     What do rows that came too late change, and how do they get into the results?
what_if/    What would a job have written with another declaration?
drill.py    Do the tables of a job stay right when it is broken on purpose?
doctor.py   Can a cluster run jobs, and if not, what is missing where?
cli/        What does the command `panekeeper` take, and what does it print?
"""
