"""What has a job done? One page of HTML with its last batches and panes.

figures.py  Which figures are shown?
charts.py   How is a chart drawn as SVG?
page.py     How is the page made?
style.py    In which colours and layout?
report.py   How is a report made of a checkpoint?
"""
