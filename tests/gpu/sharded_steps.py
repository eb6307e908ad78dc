"""A script for torchrun with one process: train in the divided forms of the weights, although there is one process.

So the collectives of NCCL, the collection of a checkpoint and its distribution run on a machine with one GPU. Argument:
the device. Prints the losses by form, task and optimiser as JSON; those after step 10 are of a trainer that was
restored from the state of the first one.
"""

import json
import sys
from unittest import mock

import torch

from tests.training.processes.sharded_steps import losses, new_trainer
from training.hardware.device import Hardware
from training.processes.join_group import opened_processes
from training.processes.single_process import Processes
from training.sharding.choice import divided_weights
from training.trainer import Trainer


def new(shard: str, task: str, kind: str, processes: Processes, device: torch.device) -> Trainer:
    """Return a trainer in bf16."""
    hardware = Hardware(device, torch.bfloat16, None, str(device))
    if shard == "none":
        return new_trainer(shard, task, kind, processes, hardware=hardware, compile="off", recompute=True)
    with mock.patch("training.trainer.weights_for", divided_weights):
        return new_trainer(shard, task, kind, processes, hardware=hardware, compile="off", recompute=True)


def main() -> None:
    device = torch.device(sys.argv[1])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    result = {}
    with opened_processes() as processes:
        for shard in ("none", "optimizer", "weights"):
            for task in ("gpt", "translate"):
                for kind in ("adamw", "muon", "scion"):
                    first = new(shard, task, kind, processes, device)
                    first.data_key = ""
                    outcome = losses(first, 10)
                    with first.evaluating():
                        assert all(parameter.isfinite().all() for parameter in first.model.parameters())
                    weights, state = first.state_dict()
                    second = new(shard, task, kind, processes, device)
                    second.restore(weights, state | {"progress": first.progress.state_dict()})
                    second.weights.follow_first(processes)
                    second.optimizer.follow_first(processes)
                    result[f"{shard} {task} {kind}"] = outcome + losses(second, 10)
        print(json.dumps(result))


if __name__ == "__main__":
    main()
