"""What is open in a job, and why: read from its checkpoint beside the job, from a savepoint, or as of an earlier batch.

opened.py         Which state is looked at: of which job, as of which batch, and is it still kept?
stored.py         What have the key groups stored, without Spark?
by_spark.py       How does Spark read state and tables, where nothing else can?
open_in_group.py  What is open in one key group?
panes.py          Which panes, sessions and partitions are open?
diff.py           What has changed between two batches, or two savepoints?
table_changes.py  What differs between two tables, and what do new results change?
frame_changes.py  The same of frames, by Spark.
shown.py          What do the commands show: the first rows, what has changed?
quarantined.py    What does the quarantine have of a partition?
partition.py      What is known of one partition: in the state, and in the tables?
moving_row.py     Which row has moved the watermark past a pane?
why.py            Why did a pane fire, or why is there no result? Which pane is meant?
"""
