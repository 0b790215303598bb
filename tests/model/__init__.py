"""Naive models: one tuple at a time, plain dicts and lists, no arrays and nothing shared with the product.

They decide what is right when the product and a test disagree, so they are written from the semantics alone and prefer
the obvious to the fast. They know nothing of micro-batches, restarts or state.
"""
