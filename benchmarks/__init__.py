"""Side-by-side benchmarks: the same rows through Panekeeper and through what one would use without it."""
