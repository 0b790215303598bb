"""Windows of panes in event time: the time intervals of one key group.

batch.py             what is loaded, processed and stored in one batch?
window.py            when does a pane complete and close?
protocol.py          what is a window of panes made of: contents, firings, output?
open_panes.py        how are rows added to open panes, and how is what was decided carried out?
fires_at_end.py      which partitions fire without rules: at the end, and again for late rows?
fires_by_rules.py    which partitions fire by the rules of the window, when?
late_rows.py         which panes does a row join, and what becomes of a late one?
geometry.py          where are panes and slices?
calendar.py          which instants do the panes of a calendar begin at?
cells.py             what does a pane hold: partial aggregates by slice
rows.py              what does a pane hold: rows, for an operator or an aggregate that cannot be merged
storage.py           how are partial aggregates and rows stored?
folding.py           how are rows folded before they reach their key group?
pane_index.py        which rows does a partition have in a pane?
open_runs.py         how many panes are open, in all key groups together?
refinements.py       which partitions must fire again, and how often has each fired?
firing_rules.py      when does a partition's pane fire next, by rules beside its end; what has it fired before?
row_firings.py       what fires at rows, and into which parts does that cut them?
slice_versions.py    what does a slice hold after each of these parts?
settleable.py        of which windows can rows that came too late be settled?
fills.py             which panes without rows does a partition get a result for, and which?
last_results.py      what has a pane fired last, where the next firing takes it back?
output.py            how does a firing become result rows of aggregates, or calls of an operator?
"""
