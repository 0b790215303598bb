"""Benchmarks: the same rows through Panekeeper and through what one would use without it. Run `python -m benchmarks`.

__main__.py          Which options are there, and in which order does everything run?
workloads.py         What is compared: which windows, which contenders, how many rows?
contenders.py        How is a contender run, for its time and for its results?
tables.py            How are jobs that write Delta tables started and timed?
into_delta.py        How long do their batches and starts take, and how late is a row visible?
against.py           How are a commit and the work tree compared?
one_side.py          What runs in the process of each of them?
measure.py           How are results compared and times taken?
processes.py         Which processes does a run consist of?
memory.py            How much memory does a run take?
processor.py         How much processor time does it take?
report.py            What is printed and written?
pages.py             What do pages say of the results?
data.py              Which rows are read?
panekeeper_jobs.py   Panekeeper's windows
spark_windows.py     Spark's own `groupBy(window)`
spark_per_key.py     The same windows by `transformWithStateInPandas`
bytewax_flow.py      The same windows as a Bytewax dataflow
joins.py             Joins of two streams, by Panekeeper and by Spark
nexmark.py           Queries of Nexmark, by Panekeeper and by Spark
flink_sql.py         The same by Flink's SQL: is it there, how is it started, what does it compute?
flink_program.py     What runs in the process of Flink
results.json         What was measured last
scaling/             Another program: what a batch costs by keys and key groups (docs/scaling.md)
soak/                Another program: a job under load that is killed at random times (docs/soak.md)
"""
