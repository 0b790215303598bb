"""Nexmark: queries on an auction house with persons, auctions and bids, as declarations. Read `queries.py`.

`tests/examples/test_nexmark.py` plays them without Spark, and compares each result with DuckDB's.
"""
