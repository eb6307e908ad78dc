#!/usr/bin/env bash
# Run the GPU benchmarks, the most important first:
#
#   bash benchmarks/gpu.sh [--dry-run] [key=value …]
#
# out       output folder: gpu.jsonl (all figures, written as soon as they are measured), gpu.md (the tables), gpu.log; figures are
#           added to those of an earlier call (default: benchmarks/results/gpu-DATE)
# nanogpt   a checkout of github.com/karpathy/nanoGPT to compare with
# text      tinyshakespeare, for `shakespeare_gpu`
# pairs     a folder with train.tsv, valid.tsv and test.tsv, for `tatoeba`
# seconds   time limit of this call (default: 530)
# stages    run only these, each with all the remaining time:
#           text,gradients,tests,training,attention,decoding,maps,sizes,translation
# wheels    packages for a machine without network access, from benchmarks/gpu_package.sh; unpacked in .cache/gpu (default: wheels/)
# --dry-run run everything with tiny sizes on a CPU; measures nothing, and keeps files only in a folder out=
#
# benchmarks/gpu/run.py lists the time of each stage; docs/gpu.md describes what is measured and how.
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

# Prints the first module that cannot be found; importing all of them would take seconds.
find_modules() { "$python" -c "import importlib.util as u, sys; sys.exit(next((m for m in sys.argv[1:] if not u.find_spec(m)), 0))" "$@" 2>&1; }

wheels=${wheels:-$root/wheels}
if compgen -G "$wheels/*.whl" > /dev/null && ! find_modules hydra datasets sentencepiece sacrebleu tensorboard > /dev/null; then
  unpacked=$root/.cache/gpu/wheels-$(ls "$wheels" | cksum | cut -d' ' -f1)
  site=$unpacked/site-packages # required name: `datasets` hashes modules outside site-packages by value, which fails for some
  if [ ! -d "$unpacked" ]; then
    mkdir -p "${unpacked%/*}"
    partial=$(mktemp -d "$unpacked.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    "$python" -m pip install -qq --no-index --no-deps --no-compile --no-cache-dir --target "$partial/site-packages" "$wheels"/*.whl
    mv "$partial" "$unpacked"
  fi
  export PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
fi

export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
if ! missing=$(find_modules torch tqdm hydra datasets sentencepiece sacrebleu tensorboard); then
  echo "error: $python: no module $missing; make install, or wheels=FOLDER from benchmarks/gpu_package.sh" >&2
  exit 2
fi
exec "$python" -m benchmarks gpu ${arguments[@]+"${arguments[@]}"}
