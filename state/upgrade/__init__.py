"""Changed declarations that keep the state of a job: which they are, and what they leave behind.

rules.py    Which changes keep the state, and from when does the new declaration hold?
history.py  What have earlier declarations left in state and tables, as `job.json` records it?
"""
