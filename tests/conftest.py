"""How much Hypothesis tries. The suite is the same on every run; `--hypothesis-profile=explore` looks for new cases."""

from hypothesis import HealthCheck, settings

settings.register_profile("suite", derandomize=True, max_examples=60, deadline=None, database=None)
settings.register_profile(
    "explore", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("suite")
