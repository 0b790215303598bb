"""Windows that end at, or begin after, each row: the windows of one key group. Only aggregates are computed of them.

batch.py           what is loaded, processed and stored in one batch, and how does a window become a result row?
window.py          which windows are there, which rows are in each, when does one fire, and when again?
firing_numbers.py  how often has each window fired?
"""
