"""How much Hypothesis tries: more where PANEKEEPER_CI is set, so that on one's own machine the tests take seconds.

The suite is the same on every run; `--hypothesis-profile=explore` looks for new cases.
"""

import os

from hypothesis import HealthCheck, settings

_EXAMPLES = 60 if os.environ.get("PANEKEEPER_CI") else 24
settings.register_profile("suite", derandomize=True, max_examples=_EXAMPLES, deadline=None, database=None)
settings.register_profile(
    "explore", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("suite")
