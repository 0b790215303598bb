"""Eviction and trigger policies of windows in arrival order, one file a policy.

evaluate.py  The policies of a declared window, asked on a round: which moments follow, and what stays
fires.py     Trigger policies of sliding windows: after which rows, or at which instants, a partition fires
starts.py    Eviction policies of sliding windows: where the content of a partition begins after each of its
tumbling.py  Where a tumbling window is cut: every cut lets go of all rows since the one before [S2]
"""
