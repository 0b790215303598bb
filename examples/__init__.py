"""Programs to run and to copy from; start with `examples.flights`."""
