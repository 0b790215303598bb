"""What has a job done? One page of HTML with its last batches and panes.

rows.py     What are the newest rows of a table, without Spark?
figures.py  Which figures are shown?
charts.py   How is a chart drawn as SVG?
page.py     How is the page made?
style.py    In which colours and layout?
report.py   How is a report made of a checkpoint?
"""
