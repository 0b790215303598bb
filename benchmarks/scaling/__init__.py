"""What a batch costs against the number of keys and of key groups. Run `python -m benchmarks.scaling`.

__main__.py   Which options are there, and in which order does everything run?
points.py     What is measured?
page.py       What does docs/scaling.md say of it?
plot.py       The picture of it
results.json  What was measured last
"""
