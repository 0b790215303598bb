"""Laws that need no model: any declaration, any history, and what must hold of both.

The tests of each window compare it with a model of its own. These combine everything with everything, and compare plays
of the real windows with each other.

declarations.py   which declarations are there? Every window, option, policy and aggregate: what is added is added here
user_code.py      which code of users do they have?
calls.py          how is a declaration made, changed and printed?
histories.py      what may happen: rows, watermarks, clocks, restarts?
playing.py        how is a history played, and when are two plays the same?
laws.py           what must hold, and what do the rules exempt?
options.py        what can be declared otherwise, and is the same?
stored.py         what does the stored state tell, and give again?
example.py        one declaration, one history, some laws
test_laws.py      some examples in `make test`, more in continuous integration
defects.py        which defects, put into the product, must the laws find?
test_defects.py   do they?
explore.py        as many as one likes: `make explore`
"""
