"""Sessions in event time: the sessions of one key group. The same path as panes: assign -> apply -> decide -> emit.

batch.py       what is loaded, processed and stored in one batch?
window.py      what do rows, the watermark and the clock do to sessions?
times.py       when does each session complete, fire again and close?
protocol.py    what is a session window made of: contents, output?
gaps.py        how long after a row does its session go on?
joins.py       which session does a row join, and which sessions become one?
open_table.py  what is known of each open session?
standing.py    which results of a session stand, and are replaced by the next one?
storage.py     what is read and written in a batch?
leaves.py      in which stored values are the sessions of a partition?
cells.py       what does a session hold: partial aggregates by slice
rows.py        what does a session hold: rows, for an operator or an aggregate that cannot be merged
folding.py     how are rows folded before they reach their key group?
output.py      how does a firing become result rows of aggregates, or calls of an operator?
"""
