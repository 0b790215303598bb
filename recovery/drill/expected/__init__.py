"""What the tables should hold after a drill, computed without the product.

arrival_oracle.py  What the tables should hold: each window played by hand, one row at a time, over the history
compare.py         Compares what the tables hold with what they should hold, as bags of rows. Needs neither
history.py         What comes in, from a seed, and what happened in which order: all that the oracle is told
state_oracle.py    As `oracle.py`, for what is not a plain window in arrival order: event time, and operators
"""
