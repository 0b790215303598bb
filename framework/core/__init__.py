"""How a row passes through a window. Read this first.

The core is pure: numpy and Arrow, no Spark, no clock, no disk. What comes for a key group in a micro-batch are packed
rows. A `BatchRunner` puts them in order, as the steps of a `GroupBatch`: rows, watermarks, ticks, marks, commands. A
`KeyGroupRunner` processes these on the store that holds the persisted state, and returns a `BatchOutcome`. So it is in
Spark's workers, in a test without Spark, in a rehearsal and in a replay. What is stored is described in
`panekeeper.state.records` and nowhere else.

group_batch.py          how does one batch of one key group run, from packed rows to its outcome?
packed_rows.py          what does a key group get of a batch?
ordering.py             in which order does a key group process it?
stream_clock.py         how does the clock of declared arrival times pass for all key groups?
steps.py                what is a micro-batch made of, and what did it do?
job_spec.py             what do the workers need of the declaration of a job?
key_group.py            how are its steps processed: windows in port order, then state handlers?
state_handlers.py       which method of the state handlers is called when?
partition_keys.py       how are partition keys numbered within a batch?
common_watermark.py     what is the watermark of several sources, also while some are silent?
repeats.py              which rows repeat an id, and are left out?
guarded_aggregates.py   what happens if an aggregate of a row or firing cannot be computed?
operator_calls.py       what has an operator emitted, and what happens if it raises for one event?
several_windows.py      how do several windows share the rows of one port?
shared_folding.py       which of these are folded before they arrive?
event_time_batch.py     how does one batch of a window in event time run: panes and sessions
result_rows.py          what does every result row have, whichever window it is of?
past_firings.py         what has fired before, and what has come since, whichever kind of window has kept it?
outlook.py              what does each open pane, session or window by row wait for?
quarantine.py           what goes to the quarantine: late rows, and what could not be computed?
row_json.py             how is a row written as JSON that Spark reads back?
stable_order.py         how are partition codes and instants sorted fast, and ranges of rows laid end to end?
stored_names.py         which names are taken by columns that are stored beside the partition columns?
panes/                  windows of panes in event time
sessions/               sessions in event time
by_row/                 windows that end at, or begin after, each row
arrival/                windows in arrival order: tumbling, sliding, batched
joins/                  which rows of two ports match, and which are given up?
inspection/             what is open in the stored state, and why? Asked of the windows; nothing is changed
aggregates/             how do aggregates fold rows and merge partial results, on columns?

Each kind of window is a family of the same parts under the same names: docs/architecture.md has the table of them.
"""
