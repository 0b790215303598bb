"""Time-interval windows: the panes of one key group. Pure; no Spark, no clock.

aggregate_output.py  What becomes of a firing: rows of aggregates, or calls of the user's operator
batch.py             One batch of a time-interval window: load what it needs, take the steps, write what changed
geometry.py          Where panes lie: pure arithmetic on event time, in whole microseconds
operator_output.py   Telling an operator what happened: events are made from turns, one after the other, in
pane_index.py        Finding what a partition has in a pane: rows of a table, sorted by (partition, slice), as
refinements.py       Which partitions must fire again, and how often they have fired: the memory behind
row_buffer.py        Raw rows, each kept once: what panes hold when an operator, or an aggregate that cannot be
slice_aggregates.py  Partial aggregates, one cell for each partition and slice: what panes hold when nobody
window.py            Time-interval windows: the life of panes in one key group [S0][S1][semantics 6]
"""
