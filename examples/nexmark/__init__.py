"""Nexmark: queries on an auction house with persons, auctions and bids, as declarations. Read `queries.py`.

`tests/examples/test_nexmark.py` plays them without Spark, `integration_tests/test_nexmark.py` on it; each result is
compared with DuckDB's. `python -m benchmarks --only nexmark-q5` measures one beside Spark SQL.
"""
