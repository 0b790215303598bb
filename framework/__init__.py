"""Windows on Spark: what they are, how a row passes through one, and the job that runs them.

declarations/  what a user declares: windows, policies, aggregates, operators; pure values
builder/       from a streaming DataFrame to a job: windowed(...) ... .start()
core/          the windows themselves: numpy and Arrow, no Spark. Read its introduction first
engine/        Spark: session, streaming plan, sink, job
testing/       the test kit behind `panekeeper.testing`

Users import from `panekeeper`. Imports go one way: declarations <- core <- engine <- builder <- testing.
"""
