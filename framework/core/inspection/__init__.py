"""What is open in the stored state of a key group, as values. Nothing is changed.

No rule is written here a second time: the windows of the job are loaded, and asked what comes next (`outlook.py`).

recorded.py          what does the recorded declaration of a job say of the window of a port?
recorded_windows.py  which window has recorded these fields?
panes.py             which panes are open for which partition, and what does each wait for?
sessions.py          which sessions are open?
kept_rows.py         which windows by row are open, and which rows does a side of an interval join keep?
arrivals.py          what has each partition of a window in arrival order, and when does it fire?
open_work.py         what is open in a key group, whatever its window?
one_key.py           which rows, and what of a stored key group, are of one partition?
stepping.py          what does each step of a micro-batch do?
differences.py       where do two states, or two tables, differ first?
reasons.py           why did a pane fire, why not yet, or why is there nothing of it?
refusals.py          what was refused of a partition, and what can be done then?
pane_times.py        where does a pane lie, and when does it fire and close, also one of which nothing is stored?
nearest.py           what is there in the place of a pane, or a partition, that is not?
partners.py          which partners has a row of an interval join, and what does it wait for?
"""
