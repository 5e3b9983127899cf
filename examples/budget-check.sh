#!/bin/sh
# Fails (exit code 1) when the release costs more than its budget: a step for a CI job.
#   sh examples/budget-check.sh examples/mixed-release.yaml 3.0
set -eu
spec=${1:-examples/mixed-release.yaml}
limit=${2:-3.0}
dpcalc compose "$spec" --max-epsilon "$limit" --format markdown
