"""Late settlement: quarantined rows are put through their windows again, and the results are corrected.

panes.py   Which panes do the rows belong to, and what has each with all of its rows? No Spark.
source.py  What do the tables, the state and the source say of these panes?
settle.py  The steps of a settlement, and what it reports.
"""
