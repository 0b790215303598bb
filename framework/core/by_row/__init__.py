"""Windows that end at, or begin after, each row: the windows of one key group. Only aggregates are computed of them.

batch.py           what is loaded, processed and stored in one batch?
window.py          which windows are there, which fire, and which again?
times.py           when does a window fire and close?
protocol.py        what are windows by row made of: output?
rows.py            which rows are in each?
output.py          how does a firing become result rows of aggregates?
firing_numbers.py  how often has each window fired?
"""
