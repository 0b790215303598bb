"""Windows over tuples in arrival order: tumbling, sliding, batched.

READ THIS: a partition is a log, a window is a range of it, policies move cursors. Inside one batch the rows of a
partition that are still wanted are numbered from 0 (content first, then what waits, then the new rows); every policy
answers with such numbers, computed on columns for all partitions at once. What happened is a table of *moments*
(which partition, what, when, which range), sorted into the documented order and handed to an answer.

    partitions.py  what is remembered of each partition between batches
    log.py         the rows that are still wanted, of all partitions
    stretch.py     the new rows of one round, and where each partition's rows lie
    starts.py      eviction policies of sliding windows: where the content begins after each row
    fires.py       trigger policies: at which rows or instants a sliding window fires
    tumbling.py    where a tumbling window is cut
    batched.py     what enters and leaves at each batch instant
    cells.py       tumbling aggregates without rows: one partial result a partition
    moments.py     the table of what happened, and its order
    answers.py     moments become result rows or calls of an operator
    window.py      the machine: rounds, clock, marks, partition eviction

To add a policy: docs/add-a-policy.md.
"""
