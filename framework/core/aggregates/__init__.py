"""How aggregates compute: partial results as columns, many at a time.

Read `protocol.py` first. The declarations are in `panekeeper.framework.declarations.aggregates`.

protocol.py         what is an accumulator: fold rows, merge partial results, finish?
binding.py          which accumulator computes a declared aggregate on columns of these types, and do they fit?
sums.py             count, sum, mean, weighted_mean, bit_or
moments.py          stddev, variance, skewness, covariance, corr
selections.py       max, min, any, all, arg_max, arg_min, first, last, collect
conditions.py       where=: an aggregate of the rows for which a condition holds
expressions.py      expr: an expression over other aggregates
groups.py           group_within=: aggregates of each group of rows in a cell, the first groups by an order
approx_distinct.py  approx_distinct, and the hash that a value has for ever
tallies.py          count_distinct, top_k, quantiles, histogram
top_rows.py         top_rows, first_row, last_row
user.py             the aggregates that a user writes
columns.py          how do Arrow columns become numpy arrays, and integers that compare as the values do?
ranges.py           how are overlapping ranges of cells merged, all at once?
"""
