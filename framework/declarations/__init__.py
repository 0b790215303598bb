"""What a user declares: windows, policies, aggregates, operators.

Pure values, validated where they are written; no Spark.

aggregates.py  Aggregates of a window: what to compute from its rows, as declarations
durations.py   Durations: seconds, `timedelta` or `minutes(20)` at the surface, whole microseconds inside
errors.py      Every error Panekeeper raises on purpose; one class for each decision a user can make
events.py      What happened to a window: one event, its key, its pane and its tuples
operator.py    An operator handles the events of a window itself, with the raw tuples, instead of declared
policies.py    When tuples leave a window and when it fires: count, time, delta, punctuation; and when a
windows.py     What a window is: declarations, validated where they are written
"""
