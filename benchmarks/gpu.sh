#!/usr/bin/env bash
# Run all GPU benchmarks in one call of less than nine minutes:
#
#   bash benchmarks/gpu.sh [--dry-run] [key=value …]
#
# out       output folder for gpu.json, gpu.md and gpu.log (default: benchmarks/results/gpu-DATE)
# nanogpt   a checkout of github.com/karpathy/nanoGPT to compare with
# text      tinyshakespeare, for `shakespeare_gpu`
# pairs     a folder with train.tsv, valid.tsv and test.tsv, for `tatoeba`
# wheels    packages for a machine without network access, from benchmarks/gpu_package.sh; used for this call only (default: wheels/)
# stages    run only these, each with all the remaining time: machine,tests,attention,training,text,kernels,decoding,maps,translation
# seconds   total time limit (default: 530)
# --dry-run run everything with tiny sizes on a CPU; measures nothing and keeps no files
#
# benchmarks/gpu/run.py lists the time budget of each stage; docs/gpu.md describes what is measured and how.
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
  site=$temporary/site-packages # required name: `datasets` hashes modules outside site-packages by value, which fails for some
  "$python" -m pip install -qq --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$wheels"/*.whl
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi

export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
if ! missing=$("$python" -c "import torch, tqdm, hydra, datasets, sentencepiece, sacrebleu, tensorboard" 2>&1); then
  echo "error: $python: ${missing##*$'\n'}; make install, or wheels=FOLDER from benchmarks/gpu_package.sh" >&2
  exit 2
fi
"$python" -m benchmarks gpu ${arguments[@]+"${arguments[@]}"}
