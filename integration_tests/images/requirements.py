"""Prints what goes into the image beside Panekeeper itself: its dependencies, and those of S3 and the flights."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
sys.stdout.write("\n".join([*project["dependencies"], *extras["s3"], *extras["flights"]]))
