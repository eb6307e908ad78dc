"""Start the workers of a launch as torchrun does, but by fork after the slow imports (see `torchrun.forked`).

Arguments: number of workers, script, its arguments.
"""

import os
import runpy
import socket
import sys

import datasets  # noqa: F401

import data.token_cache  # noqa: F401
import training.evaluation.evaluators
import training.sharding.zero
import training.trainer

if any("weights" in argument for argument in sys.argv):  # trainer.shard=weights
    import torch._dynamo  # noqa: F401

    import training.sharding.fully_sharded  # noqa: F401


def main() -> None:
    count = int(sys.argv[1])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(count),
        "GROUP_WORLD_SIZE": "1",
        "TORCHELASTIC_RUN_ID": "forked",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
    workers = []
    for rank in range(count):
        if worker := os.fork():
            workers.append(worker)
            continue
        os.environ |= common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        sys.argv = sys.argv[2:]
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    raise SystemExit(max(codes, key=abs))


if __name__ == "__main__":
    main()
