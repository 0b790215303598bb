"""Naive models: one row at a time, plain dicts and lists, no arrays and nothing shared with the product.

They decide what is right when the product and a test disagree, so they are written from the semantics alone and prefer
the obvious to the fast. Micro-batches, restarts and state have no place in them.
"""
