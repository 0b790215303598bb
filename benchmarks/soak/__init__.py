"""A load test of a job that reads Kafka and is killed at random times; every row is accounted for. `make soak`.

__main__.py     Which options are there, and what is the exit code?
run.py          What happens in which order?
load.py         Which rows are sent, and when?
generator.py    The program that sends them to Kafka
job.py          The program with the job, as a user would write it
kills.py        When is the job killed?
supervisor.py   How is the job started, killed and started again?
account.py      Does each pane have exactly the rows that were sent for it?
commits.py      What do the logs of the Delta tables say, and when did they say it?
latency.py      How late is a pane visible, and how long does a recovery take?
footprint.py    How much memory and disk does the job take?
capacity.py     How many rows a second can this machine process?
report.py       What is printed and written?
broker.py       The Kafka broker; the tests use it, too
"""
