#!/usr/bin/env bash
# Measure everything on a GPU in one call of under nine minutes:
#
#   bash benchmarks/gpu.sh [--dry-run] [key=value …]
#
# out       results: gpu.json, gpu.md, gpu.log (benchmarks/results/gpu-DATE)
# nanogpt   a checkout of github.com/karpathy/nanoGPT, to be measured beside us
# text      tinyshakespeare, for `shakespeare_gpu`
# pairs     a folder with train.tsv, valid.tsv, test.tsv, for `tatoeba`
# wheels    packages for a machine without a network (wheels/), see benchmarks/gpu_package.sh; installed for this call alone
# stages    only these, each with all the time that is left: machine,tests,attention,training,text,kernels,decoding,maps,translation
# seconds   for everything (530)
# --dry-run all of it with tiny sizes on a CPU; measures nothing, leaves nothing
#
# The plan with the time of each stage is in benchmarks/gpu/run.py, what is measured and how in docs/gpu.md.
set -euo pipefail

arguments=() wheels=""
for argument in "$@"; do
  case $argument in
    --dry-run) arguments+=(dry_run=true) ;;
    --help | -h) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;s/^#$//;p}' "$0"; exit ;;
    wheels=*) wheels=${argument#wheels=} ;;
    *) arguments+=("$argument") ;;
  esac
done
root=$(cd "$(dirname "$0")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
python=${PYTHON:-$python}

wheels=${wheels:-$root/wheels}
if compgen -G "$wheels/*.whl" > /dev/null && ! "$python" -c "import hydra, datasets, sentencepiece, sacrebleu, tensorboard" 2> /dev/null; then
  temporary=$(mktemp -d)
  trap 'rm -rf "$temporary"' EXIT
  site=$temporary/site-packages # the name matters: modules from elsewhere are hashed by value by `datasets`, and some cannot be
  "$python" -m pip install -qq --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$wheels"/*.whl
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi

export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
if ! missing=$("$python" -c "import torch, tqdm, hydra, datasets, sentencepiece, sacrebleu, tensorboard" 2>&1); then
  echo "error: $python: ${missing##*$'\n'}; make install, or wheels=FOLDER from benchmarks/gpu_package.sh" >&2
  exit 2
fi
"$python" -m benchmarks gpu ${arguments[@]+"${arguments[@]}"}
