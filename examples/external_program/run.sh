#!/bin/sh
# Fit a simulator's two parameters from the command line; the truth is log 2.5 = 0.916, log 0.4 = -0.916.
set -eu
cd "$(dirname "$0")"
lmma minimize --command "${PYTHON:-python3} simulate.py {file}" \
    --x0 0,0 --sigma0 0.5 --target 1e-2 --max-evaluations 600 --seed 1 --method ma-es "$@"
