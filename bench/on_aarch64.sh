#!/usr/bin/env bash
# The golden bytes and every digest of the embedded models, made again by another instruction set: AArch64, emulated.
#
#     bench/on_aarch64.sh [CACHE]      CACHE: a folder for everything (1 GB), else .cache/aarch64
#
# An arm64 Python of Debian is unpacked into the folder and run by qemu-user; arm64 wheels come from PyPI; the host
# kernels are compiled for a Neoverse N1, which has NEON and fused multiply-add. Needs x86-64 Linux with apt-get, dpkg,
# the keys of Debian (elsewhere: `apt install debian-archive-keyring`), g++, git, network, and `gnomon` in the
# environment (`make test`, then `. .venv/bin/activate`). Nothing is installed and nobody has to be root.
# Exit code 0: no byte moved. See docs/second-machine.md.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=$(realpath -m "${1:-$root/.cache/aarch64}")
mkdir -p "$cache"

# Packages of Debian, fetched with lists and settings of their own.
debian() { # FOLDER PACKAGE...: unpack packages into a folder, once
    [ -e "$cache/$1/complete" ] && return
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial" "$cache/debs/$1"
    : > "$cache/apt/status"
    echo "deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "http://deb.debian.org/debian bookworm main" > "$cache/apt/sources.list"
    cat > "$cache/apt/conf" <<CONF
Dir::State::lists "$cache/apt/lists";
Dir::State::status "$cache/apt/status";
Dir::Cache "$cache/apt";
Dir::Etc::sourcelist "$cache/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
CONF
    (
        cd "$cache/debs/$1"
        export APT_CONFIG="$cache/apt/conf"
        [ -n "$(find "$cache/apt/lists" -name '*_Packages*' -print -quit)" ] || apt-get -q update >&2
        apt-get -q download "${@:2}" >&2
    )
    for package in "$cache/debs/$1"/*.deb; do dpkg -x "$package" "$cache/$1"; done
    touch "$cache/$1/complete"
}

debian qemu qemu-user-static:amd64
debian sysroot {libpython3.11-minimal,libpython3.11-stdlib,python3.11-minimal}:arm64 \
    {libc6,libgcc-s1,libstdc++6,zlib1g,libbz2-1.0,liblzma5,libexpat1,libffi8,libsqlite3-0,libssl3,libuuid1}:arm64
debian cross {binutils,cpp-12,gcc-12,g++-12}-aarch64-linux-gnu \
    {libc6,libc6-dev,libgcc-s1,libgcc-12-dev,libstdc++6,libstdc++-12-dev,linux-libc-dev}-arm64-cross

# This checkout as a wheel, so that both machines run the same files.
rm -rf "$cache/source" "$cache/wheel" "$cache/gnomon"
mkdir "$cache/source"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$cache/source")
python -m pip wheel -q --no-deps -w "$cache/wheel" "$cache/source" 2> "$cache/log" || { cat "$cache/log" >&2; exit 1; }
python -m pip install -q --no-deps --target "$cache/gnomon" "$cache"/wheel/*.whl >&2

# What it needs, for arm64.
if ! cmp -s "$root/requirements-dev.lock" "$cache/site/requirements"; then
    rm -rf "$cache/site"
    python -m pip install -q --target "$cache/site" --constraint "$root/requirements-dev.lock" \
        --platform manylinux_2_28_aarch64 --platform manylinux2014_aarch64 --python-version 3.11 \
        --implementation cp --only-binary=:all: "$cache"/wheel/*.whl >&2
    rm -r "$cache/site/gnomon" "$cache"/site/gnomon-*
    cp "$root/requirements-dev.lock" "$cache/site/requirements"
fi

here() {
    PYTHONPATH="$cache/gnomon" GNOMON_CACHE="$cache" python "$@"
}
there() {
    PYTHONPATH="$cache/gnomon:$cache/site" GNOMON_CACHE="$cache" \
        PATH="$cache/cross/usr/bin:$PATH" LD_LIBRARY_PATH="$cache/cross/usr/lib/x86_64-linux-gnu" \
        GNOMON_CXX="aarch64-linux-gnu-g++-12 --sysroot=$cache/cross -mcpu=neoverse-n1" \
        "$cache/qemu/usr/bin/qemu-aarch64-static" -L "$cache/sysroot" "$cache/sysroot/usr/bin/python3.11" "$@"
}
gnomon='from gnomon.cli import main; main()'

echo "on $(here -c 'import platform; print(platform.machine())')" >&2
here -c "$gnomon" gate golden -e numpy -e host --receipt "$cache/here.jsonl" >&2
here "$root/bench/digests.py" --out "$cache/here.json" >&2

echo "on $(there -c 'import platform; print(platform.machine())')" >&2
there -c "$gnomon" gate golden -e numpy -e host --receipt "$cache/there.jsonl" >&2
here -c "$gnomon" receipts compare "$cache/here.jsonl" "$cache/there.jsonl" >&2
there "$root/bench/digests.py" --out "$cache/there.json" --against "$cache/here.json"
