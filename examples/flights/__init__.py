"""The main demonstration: a year of flights out of New York, replayed as a stream. Run it with `make demo`."""
