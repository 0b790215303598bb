"""What a user declares: windows, policies, aggregates, operators.

Pure values, validated where they are written; no Spark.

aggregates.py      which aggregates are there? the functions behind `agg`, which columns they read, what they return
arrow_types.py     which Arrow type does a user mean by a type, or by the name of one?
calls.py           which option does a call, or a window, not have, and which did a user mean?
display.py         how is a declaration, a job or a savepoint shown in a notebook?
durations.py       how is a duration written, and what is it in microseconds?
errors.py          which errors does Panekeeper raise on purpose, and which name did a user mean?
events.py          what is an event: its type, its key, its pane and its rows?
expressions.py     what is an expression over aggregates?
firing.py          when does a window of event time fire?
joins.py           how are rows of two streams joined: which match, and which go out alone?
methods.py         what do methods of a user's object have in common: plain functions, most of which return nothing?
operator.py        what does a user's operator or listener implement, and which events has each window?
parameters.py      which attributes of a user's object belong to the declaration?
policies.py        when do rows leave a window, when does it fire, when is a partition evicted? those of a user, too
steps.py           which step comes next, and what is a user told who calls another one, as of Spark?
svg.py             how is a picture drawn as SVG?
user_aggregate.py  what does a user's own aggregate implement?
calendar.py        which panes of a calendar are there, and which values do they refuse?
windows.py         which windows are there, and which values do they refuse?
"""
