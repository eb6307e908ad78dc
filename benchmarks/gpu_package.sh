#!/usr/bin/env bash
# Build wheels of missing packages for benchmarks/gpu.sh on a machine without network access, and check the total upload size:
#
#   bash benchmarks/gpu_package.sh [wheels=FOLDER] [packages="NAME …"] [python=3.12] [limit=60] [text=FILE] [pairs=FOLDER] [nanogpt=FOLDER]
#
# wheels    output folder (default: wheels/, ignored by git)
# packages  packages to include, with versions from constraints.txt; default: those missing from a typical image with torch, transformers and Jupyter
# python    Python version of the GPU machine; the wheels are for Linux on x86-64
# limit     maximum total size of wheels, tracked files and the given inputs, in MiB; a larger total is an error
set -euo pipefail

case ${1:-} in --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit ;; esac

root=$(cd "$(dirname "$0")/.." && pwd)
wheels=$root/wheels packages="hydra-core omegaconf antlr4-python3-runtime datasets dill multiprocess matplotlib-fontja" version=3.12 limit=60
inputs=()
for argument in "$@"; do
  case $argument in
    wheels=*) wheels=${argument#*=} ;;
    packages=*) packages=${argument#*=} ;;
    python=*) version=${argument#*=} ;;
    limit=*) limit=${argument#*=} ;;
    text=* | pairs=* | nanogpt=*) inputs+=("${argument#*=}") ;;
    *) echo "error: $argument: unknown setting; --help lists the settings" >&2; exit 2 ;;
  esac
done
[[ $limit =~ ^[0-9]+$ ]] || { echo "error: limit=$limit: must be a whole number of MiB" >&2; exit 2; }
for input in ${inputs[@]+"${inputs[@]}"}; do
  [ -e "$input" ] || { echo "error: $input: no such file or folder" >&2; exit 2; }
done
pip=("${PYTHON:-python3}" -m pip)

mkdir -p "$wheels"
find "$wheels" -maxdepth 1 -name '*.whl' -delete # removes wheels of older versions
platforms=()
for glibc in 39 35 34 31 28 27 24 17 5; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
for package in $packages; do
  pinned=$(sed -n "s/^\($package==[^ ;]*\).*/\1/p" "$root/constraints.txt")
  "${pip[@]}" download -qq --no-deps --only-binary=:all: --python-version "$version" --implementation cp "${platforms[@]}" \
    --platform manylinux2014_x86_64 --dest "$wheels" "${pinned:-$package}" 2> /dev/null ||
    "${pip[@]}" wheel -qq --no-deps --wheel-dir "$wheels" "${pinned:-$package}" # builds packages that are published only as source
done
if compgen -G "$wheels/*-linux_*.whl" > /dev/null; then
  echo "error: this wheel runs only on the machine where it was built: $(basename "$(compgen -G "$wheels/*-linux_*.whl" | head -1)")" >&2
  exit 1
fi

mebibytes() { du --apparent-size -cLb "$@" | tail -1 | awk '{printf "%.1f", $1 / 1048576}'; }
tracked=$(cd "$root" && git ls-files -z | xargs -0 du --apparent-size -cb | tail -1 | awk '{printf "%.1f", $1 / 1048576}')
packed=0
if compgen -G "$wheels/*.whl" > /dev/null; then packed=$(mebibytes "$wheels"/*.whl); fi
given=0
[ ${#inputs[@]} = 0 ] || given=$(mebibytes "${inputs[@]}")
ls "$wheels"
awk -v packed="$packed" -v tracked="$tracked" -v given="$given" -v limit="$limit" 'BEGIN {
  printf "wheels %.1f MiB + tracked files %.1f MiB + inputs %.1f MiB = %.1f MiB of %d\n", packed, tracked, given, packed + tracked + given, limit
  exit packed + tracked + given > limit
}' || { echo "error: the total exceeds limit=$limit MiB" >&2; exit 1; }
