"""What a user declares: windows, policies, aggregates, operators.

Pure values, validated where they are written; no Spark.

aggregates.py      which aggregates are there? the functions behind `agg`, which columns they read, what they return
arrow_types.py     which Arrow type does a user mean by a type, or by the name of one?
durations.py       how is a duration written, and what is it in microseconds?
errors.py          which errors does Panekeeper raise on purpose?
events.py          what is an event: its type, its key, its pane and its rows?
operator.py        what does a user's operator or listener implement?
parameters.py      which attributes of a user's object belong to the declaration?
policies.py        when do rows leave a window, when does it fire, and when is a partition evicted?
policy.py          what does every policy declare: its roles, and the column that it reads?
suggestions.py     which name did a user mean, in an error about one that does not exist?
user_aggregate.py  what does a user's own aggregate implement?
user_policy.py     what does a user's own policy implement?
window_events.py   which events can happen in which window?
windows.py         which windows are there, and which values do they refuse?
"""
