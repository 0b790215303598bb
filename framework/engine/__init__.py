"""Windows on Spark.

Imports go one way: session <- sources <- flow <- user_sinks <- sink <- job <- metrics, and clock <- job.

session/     the Spark session: settings, Java libraries, checks of this machine, Spark's errors
sources/     what the sources of a job read: how much at once, and is it what they have read before
flow/        the streaming plan: intake, packing, control stream, stateful processor
user_sinks/  results beside the Delta tables: a sink of one's own, a function, Kafka
clock/       the wall clock of a running job: ticks, and what they leave
sink/        one micro-batch into Delta tables, exactly once
job/         start, lease, status, drain, reset
metrics.py   the numbers of running jobs, for monitoring systems
"""
