#!/usr/bin/env bash
# What a GPU machine without a network lacks, as wheels for benchmarks/gpu.sh, and whether all that has to travel there fits:
#
#   bash benchmarks/gpu_package.sh [wheels=FOLDER] [packages="NAME …"] [python=3.12] [limit=60] [text=FILE] [pairs=FOLDER] [nanogpt=FOLDER]
#
# wheels    where they go (wheels/, which git ignores)
# packages  names to be packed, versions by constraints.txt; by default what an image with torch, transformers and a notebook's packages lacks
# python    the version there; wheels are for Linux on x86-64
# limit     MiB of wheels, tracked files and the inputs named together; more is an error
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
    *) echo "error: $argument: not understood; --help lists the settings" >&2; exit 2 ;;
  esac
done
[[ $limit =~ ^[0-9]+$ ]] || { echo "error: limit=$limit: must be a whole number of MiB" >&2; exit 2; }
for input in ${inputs[@]+"${inputs[@]}"}; do
  [ -e "$input" ] || { echo "error: $input: no such file or folder" >&2; exit 2; }
done
pip=("${PYTHON:-python3}" -m pip)

mkdir -p "$wheels"
find "$wheels" -maxdepth 1 -name '*.whl' -delete # one version of each
platforms=()
for glibc in 39 35 34 31 28 27 24 17 5; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
for package in $packages; do
  pinned=$(sed -n "s/^\($package==[^ ;]*\).*/\1/p" "$root/constraints.txt")
  "${pip[@]}" download -qq --no-deps --only-binary=:all: --python-version "$version" --implementation cp "${platforms[@]}" \
    --platform manylinux2014_x86_64 --dest "$wheels" "${pinned:-$package}" 2> /dev/null ||
    "${pip[@]}" wheel -qq --no-deps --wheel-dir "$wheels" "${pinned:-$package}" # published as source alone: built here
done
if compgen -G "$wheels/*-linux_*.whl" > /dev/null; then
  echo "error: a wheel was built for this machine alone: $(basename "$(compgen -G "$wheels/*-linux_*.whl" | head -1)")" >&2
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
}' || { echo "error: that is more than $limit MiB" >&2; exit 1; }
