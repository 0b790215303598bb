"""Restart drills: real jobs are broken on purpose, and what they leave is compared with what should be there.

    checks      what is drilled: a window of each kind, an operator with state, a user's own job
    scenarios   what is done to it: a list of actions that can be read aloud
    runner      does it, each run of the jobs in a process of its own (`program`), so that it can be killed
    judge       compares the tables with an `oracle` that knows only the input; shares no code with what it judges
    report      tells the outcome: words, JSON, a page of HTML

READ `scenarios.py` FIRST. The judge never guesses: what it cannot tell is "unknown", and that is not a pass.
"""
