#!/bin/sh
# Everything that can be asked of engine `cupy` on a machine with an NVIDIA GPU, in about five minutes:
#
#     sh bench/on_cuda.sh [RECEIPT]
#
# Needs Python 3.11 or later and a driver for CUDA 12; the packages go into a folder that is removed at the end.
set -eu
cd "$(dirname "$0")/.."
venv=$(mktemp -d)
trap 'rm -rf "$venv" build gnomon.egg-info' EXIT
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet . 'cupy-cuda12x>=14.0' 'nvidia-cuda-nvrtc-cu12>=12.9' \
  'pytest>=8.3' 'pytest-timeout>=2.3' 'hypothesis>=6.100'
"$venv/bin/python" bench/kit.py --engine cupy --receipt "${1:-receipt-cuda.jsonl}"
