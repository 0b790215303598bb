"""What is open in a job, and why: read from its checkpoint beside the job, from a savepoint, or as of an earlier batch.

opened.py        Which state is looked at: of which job, as of which batch, and is it still kept?
panes.py         Which panes, sessions and partitions are open, as data frames?
plain_tables.py  Which rows does a table have, without Spark?
written.py       Which rows have batches added to a table?
diff.py          What has changed between two batches, or two savepoints?
quarantined.py   What does the quarantine have of a partition?
why.py           Why did a pane fire, or why is there no result?
"""
