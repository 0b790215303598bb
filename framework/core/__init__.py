"""READ THIS FIRST: how a row passes through a window.

The core is pure: numpy and Arrow, no Spark, no clock, no disk. A micro-batch of one key group is a list of
`steps` (rows, watermarks, ticks, marks); a `Machine` takes it, with the store that holds what survived, and gives an
`Outcome`. The same machine runs in the tests and in Spark's workers.

    steps.py       what a batch is made of; time and commands are data
    plan.py        what the job asks for: window, partition columns, aggregates or operator
    machine.py     one batch of one key group: windows in port order, then state handlers
    lifecycle.py   the state handlers of a key group
    outcome.py     what a batch did; several ports as one
    horizon.py     the watermark of several ports
    keys.py        partitions as small numbers, for one batch
    aggregates/    how sums, extremes, sketches fold and merge, column-wise

Time-interval windows:

    interval_batch.py  one batch of one window: read the header, take the steps, write the header
    interval.py    the life of panes: assign -> apply -> decide -> emit
    geometry.py    where panes and slices lie: arithmetic on event time
    cells.py       what a partition has in a pane: runs of sorted rows
    slices.py      contents as partial aggregates (nobody asked for raw rows)
    rowlog.py      contents as raw rows (an operator did)
    pending.py     who must fire again, and how often it fired: refinements
    answers.py     a firing becomes result rows: aggregates
    operating.py   ... or calls of an operator

Tumbling, sliding and batched windows, over tuples in arrival order: `sequence/`, which has its own introduction.

Durable fields are in `state.records` and nowhere else.
"""
