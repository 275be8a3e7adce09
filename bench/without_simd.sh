#!/usr/bin/env bash
# The golden bytes and every digest of the embedded models, made again without the vector instructions of this CPU.
#
#     bench/without_simd.sh [CACHE]      CACHE: a folder for everything, else .cache/without_simd
#
# NumPy runs with every feature off that it would choose at run time, its BLAS on the oldest kernels, and the host
# kernels are compiled for plain x86-64 without a vectoriser. Needs x86-64, a C++ compiler and `gnomon` in the
# environment (`make test`, then `. .venv/bin/activate`). Exit code 0: no byte moved. See docs/second-machine.md.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=$(realpath -m "${1:-$root/.cache/without_simd}")
mkdir -p "$cache"
export GNOMON_CACHE="$cache"

found='import numpy; print(*numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", []))'
features=$(python -c "$found")
if [ -z "$features" ]; then
    echo "Expected NumPy to have found vector instructions beyond its baseline but there are none to turn off" >&2
    exit 3
fi

echo "as this machine does it: $features" >&2
gnomon gate golden -e numpy -e host --receipt "$cache/plain.jsonl" >&2
python "$root/bench/digests.py" --out "$cache/plain.json" >&2

export NPY_DISABLE_CPU_FEATURES="$features" OPENBLAS_CORETYPE=Prescott
export GNOMON_CXX="${GNOMON_CXX:-c++} -march=x86-64 -fno-tree-vectorize -fno-tree-slp-vectorize"
left=$(python -c "$found")
if [ -n "$left" ]; then
    echo "Expected NumPy to run without $features but it still has $left" >&2
    exit 3
fi

echo "without them" >&2
gnomon gate golden -e numpy -e host --receipt "$cache/without.jsonl" >&2
gnomon receipts compare "$cache/plain.jsonl" "$cache/without.jsonl" >&2
python "$root/bench/digests.py" --out "$cache/without.json" --against "$cache/plain.json"
