"""What the tables should hold after a drill, computed from the input alone. Imports nothing of the code it checks.

arrival_oracle.py  What windows in arrival order should emit: a naive window for each kind, one row at a time
compare.py         Which rows of the tables are lost, doubled or wrong, compared as bags of rows
history.py         Which input rows there are, generated from a seed, and which events happened in which order
state_oracle.py    What time intervals, operators with state and two ports should emit
"""
