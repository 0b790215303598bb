"""Windows in arrival order: tumbling, sliding, batched.

The rows of a partition that are still needed are numbered from 0 within a batch: the content first, then the rows that
wait outside, then the new ones. A window is a range of these positions, and policies move its ends, on columns for all
partitions at once. What happened is a table of events (which partition, what, when, which range), sorted into the
documented order and given to the output.

batch.py         what is loaded, processed and stored in one batch, and what can a state handler do?
window.py        what happens in a round, at a tick, at a mark, at a flush, after an outage?
round.py         which rows are new in a round, and where are the rows of each partition?
protocol.py      what is a window in arrival order made of: contents, output?
contents.py      what follows from a round where rows are kept, and where partial results are?
cells.py         what is kept of a window: partial aggregates by partition
rows.py          what is kept of a window: rows, for an operator or an aggregate that cannot be merged; how stored?
partitions.py    what is stored for each partition?
policies/        what does each eviction policy, trigger and partition eviction do?
timers.py        which timers are due, and which does nobody see?
batched.py       what enters and leaves a batched window at each batch instant?
event_table.py   what happened, and in which order?
output.py        how do events become result rows, or calls of an operator?
"""
