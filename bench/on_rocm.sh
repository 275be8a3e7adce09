#!/bin/sh
# Everything that can be asked of engine `cupy` on a machine with an AMD GPU, in about five minutes:
#
#     sh bench/on_rocm.sh [RECEIPT]
#
# Needs Python 3.11 or later and ROCm 7 with its libraries, ROCM_HOME set; the packages go into a folder that is removed
# at the end.
set -eu
cd "$(dirname "$0")/.."
venv=$(mktemp -d)
trap 'rm -rf "$venv" build gnomon.egg-info' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet . 'cupy-rocm-7-0>=14.0' \
  'pytest>=8.3' 'pytest-timeout>=2.3' 'hypothesis>=6.100'
"$venv/bin/python" bench/kit.py --engine cupy --receipt "${1:-receipt-rocm.jsonl}"
