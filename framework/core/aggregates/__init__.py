"""The running half of `framework.declarations.aggregates`: partial results as columns.

Read `protocol.py` first; then one file a family: `sums` (count, sum, mean), `picks` (max, min, arg_max, arg_min,
first, last), `spread` (stddev), `sketch` (approx_distinct), `content` (collect), `user`. They share `columns`
(Arrow to numpy and back), `ordering` (any type as comparable integers) and `runs` (overlapping ranges of cells).
"""
