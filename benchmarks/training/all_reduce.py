"""A script for torchrun: print the median seconds of one all-reduce of float32 tensors, by megabytes, as JSON.

Arguments: the sizes in megabytes.
"""

import json
import sys
import time
from statistics import median

import torch

from training.processes.opening import opened_processes

ROUNDS = 15


def main() -> None:
    """Measure every size."""
    found = {}
    with opened_processes() as processes:
        for megabytes in map(float, sys.argv[1:]):
            tensor = torch.zeros(int(megabytes * 250_000))
            seconds = []
            for _ in range(ROUNDS):
                processes.barrier()
                start = time.perf_counter()
                processes.all_reduce(tensor)
                seconds.append(time.perf_counter() - start)
            found[megabytes] = median(seconds[3:])
        if processes.is_main:
            print(json.dumps(found))


if __name__ == "__main__":
    main()
