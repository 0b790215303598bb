"""READ THIS FIRST: how a row passes through a window.

The core is pure: numpy and Arrow, no Spark, no clock, no disk. A micro-batch of one key group is a list of
`steps` (rows, watermarks, ticks, marks); a `Machine` takes it, with the store that holds what survived, and gives an
`Outcome`. The same machine runs in the tests and in Spark's workers.

    steps.py       what a batch is made of; time and commands are data
    plan.py        what the job asks for: window, partition columns, aggregates or operator
    machine.py     one batch: read the header, take the steps, write the header
    interval.py    time-interval windows: assign -> apply -> decide -> emit
    geometry.py    where panes and slices lie: arithmetic on event time
    keys.py        partitions as small numbers, for one batch
    cells.py       what a partition has in a pane: runs of sorted rows
    slices.py      contents as partial aggregates (nobody asked for raw rows)
    rowlog.py      contents as raw rows (an operator did)
    pending.py     who must fire again, and how often it fired: refinements
    answers.py     a firing becomes result rows: aggregates
    operating.py   ... or calls of an operator
    aggregates/    how sums, extremes, sketches fold and merge, column-wise

Durable fields are in `state.records` and nowhere else.
"""
