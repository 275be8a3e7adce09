#!/bin/sh
# Everything that can be asked of engine `mlx-metal` on a Mac with Apple silicon, in about five minutes:
#
#     sh bench/on_mac.sh [RECEIPT]
#
# Needs Python 3.11 or later; the packages go into a folder that is removed at the end.
set -eu
cd "$(dirname "$0")/.."
venv=$(mktemp -d)
trap 'rm -rf "$venv" build gnomon.egg-info' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet . 'mlx>=0.30' \
  'pytest>=8.3' 'pytest-timeout>=2.3' 'hypothesis>=6.100'
"$venv/bin/python" bench/kit.py --engine mlx-metal --receipt "${1:-receipt-mac.jsonl}"
