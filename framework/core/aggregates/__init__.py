"""How aggregates compute: partial results as columns, many at a time.

Read `protocol.py` first. The declarations are in `panekeeper.framework.declarations.aggregates`.

protocol.py         what is an accumulator: fold rows, merge partial results, finish?
binding.py          which accumulator computes a declared aggregate on columns of these types?
type_checks.py      does the type of a column fit an aggregate?
sums.py             count, sum, mean
selections.py       max, min, arg_max, arg_min, first, last
stddev.py           stddev
approx_distinct.py  approx_distinct
content.py          collect
user.py             the aggregates that a user writes
columns.py          how do Arrow columns become numpy arrays, and back?
ordering.py         which integers compare as the values of any ordered type do?
hashing.py          which hash does a value have, for ever?
ranges.py           how are overlapping ranges of cells merged, all at once?
sparse_fold.py      how are only those cells folded that get rows?
"""
