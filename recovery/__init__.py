"""Around a stop: savepoints, restore, drills. Imports `framework` and `state`; nothing imports it.

cli.py                  the command `panekeeper`: a table of subcommands
commands_savepoint.py   ... those around savepoints
commands_restore.py     ... restore and clone
commands_upgrade.py     ... plan and rescale
savepoint.py            makes a savepoint; its steps are numbered there
marking.py              ... and asks a running job for the batch it is made of
shelf.py                the savepoints of a location: list, show, verify, prune
restore.py              takes a job and its tables back; its steps are numbered there
intent.py               ... and writes down how far it is
begun.py                ... and what an interrupted one means for the next
plan.py                 what a restore would change, and whether it may
moved.py                ... and that no job starts from where it was
rescale.py              another number of shuffle partitions for a stopped job
upgrade.py              whether a job as it is declared now can go on from a savepoint
job_file.py             ... and how a Python file tells its declaration
clone.py                a copy of a job beside it
copying.py              from a savepoint to a checkpoint
working.py              who is at work in a location: savepoints and prunes
retention.py            whether tables keep old versions for long enough
manifest.py             what a savepoint consists of
blobs.py                contents by their checksum
archive.py              where savepoints live: the protocol
files.py                ... and where checkpoints and tables lie, of which more is asked
apart.py                ... and that neither lies within the other
local_files.py          both in a local folder
s3_files.py             both on S3
bucket.py               a bucket, and what goes wrong with it
patience.py             how long a store that fails is tried again
side_by_side.py         many small transfers at once
checkpoint_folder.py    Spark's checkpoint read as files
delta_log.py            versions of Delta tables, without Spark
delta_tables.py         Delta tables at a version, with Spark
state_values.py         reads and decodes all stored state, with Spark
commands_drill.py       the subcommand `drill`
drill/                  breaks jobs on purpose, and judges what they leave
lease.py                does a process run this job?
errors.py               what can go wrong
"""
