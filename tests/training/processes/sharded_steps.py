"""A script for several processes: train small models in every form of `trainer.shard`, print JSON from the first one.

Arguments: shards (or `alone`: the first process without the others), tasks and optimisers (each joined by commas),
micro-batches per step, steps, width. The result contains, by `shard task optimiser`, the loss of every step, the
parameters, and per process the bytes of tensors that persist between steps.
"""

import gc
import json
import sys
import time
from itertools import product

import torch

from data.batches.batch import IGNORED, Batch
from model.config import ModelConfig
from model.encoder_decoder import EncoderDecoder
from model.gpt import GPT
from model.size import count_parameters
from tests.training.tiny_trainer import CPU, Listed
from training.config import OptimConfig, ScheduleConfig, TrainConfig, TrainerConfig
from training.counters import Interval
from training.hardware.device import Hardware
from training.processes.join_group import opened_processes
from training.processes.single_process import SINGLE, Processes
from training.trainer import Trainer

VOCABULARY = 41
ROWS = (6, 2, 4, 4, 8, 2, 1)
"""Rows of the batches of an epoch, whose number is prime: the last batches of an epoch belong to various processes."""


def batches(task: str) -> list[Batch]:
    """Return batches whose rows and numbers of targets differ."""
    generator = torch.Generator().manual_seed(0)

    def tokens(rows: int, length: int) -> torch.Tensor:
        return torch.randint(4, VOCABULARY, (rows, length), generator=generator)

    result = []
    for number, rows in enumerate(ROWS):
        targets = tokens(rows, 9)
        targets[0, 9 - number % 4 :] = IGNORED
        result.append(Batch(tokens(rows, 9), targets, tokens(rows, 5 + number % 2) if task == "translate" else None))
    return result


def new_trainer(
    shard: str,
    task: str,
    kind: str,
    processes: Processes,
    width: int = 36,
    hardware: Hardware = CPU,
    **settings: object,
) -> Trainer:
    """Return a trainer of a small model, with a head of its own for Scion, and an average of the weights."""
    trainer = {"steps": 50, "log_every": 1, "evaluate_every": 50, "ema": 0.9, "shard": shard} | settings
    config = TrainConfig(
        task=task,
        trainer=TrainerConfig(**trainer),  # type: ignore[arg-type]
        schedule=ScheduleConfig(warmup=0, kind="constant"),
        optim=OptimConfig(kind=kind, lr=5e-4, muon_lr=1e-3, embedding_lr=1e-3, head_lr=5e-4, clip=0.5),
    )
    torch.manual_seed(1)
    sizes = ModelConfig(layers=2, heads=2, width=width, context=16, qk_norm=True, tie_embeddings=kind != "scion")
    model = GPT(sizes, VOCABULARY) if task == "gpt" else EncoderDecoder(sizes, VOCABULARY, VOCABULARY, shared=True)
    return Trainer(config, model, Listed(batches(task)), hardware, 1.0, processes)


def losses(trainer: Trainer, steps: int) -> list[float]:
    """Return the loss of each of the next steps."""
    result = []
    for _ in range(steps):
        trainer.step()
        result.append(trainer.since_log.mean_loss)
        trainer.since_log = Interval()
    return result


def tensor_bytes() -> int:
    """Return the bytes of all tensors of this process; tensors that share memory count once."""
    gc.collect()
    storages = {}
    for each in gc.get_objects():
        if type(each) in (torch.Tensor, torch.nn.Parameter):  # a DTensor contains one of these
            storage = each.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def measured(shard: str, task: str, kind: str, processes: Processes, accumulate: int, steps: int, width: int) -> dict:
    """Train a new model and return the result for one entry."""
    before = tensor_bytes()
    trainer = new_trainer(shard, task, kind, processes, width, accumulate=accumulate)
    result = losses(trainer, steps)
    processes.barrier()  # gloo's threads may still hold the buffers of the last exchange
    time.sleep(0.05)
    used = tensor_bytes() - before
    return {"losses": result, "bytes": processes.gather(lambda: used), "parameters": count_parameters(trainer.model)}


def main() -> None:
    forms = list(product(*(argument.split(",") for argument in sys.argv[1:4])))
    sizes = list(map(int, sys.argv[4:]))
    result = {}
    gc.freeze()  # the objects of all imports, which `tensor_bytes` need not visit
    with opened_processes() as processes:
        for shard, task, kind in forms:
            if shard != "alone":
                result[f"{shard} {task} {kind}"] = measured(shard, task, kind, processes, *sizes)
            elif processes.is_main:
                result[f"{shard} {task} {kind}"] = measured("none", task, kind, SINGLE, *sizes)
        if processes.is_main:
            print(json.dumps(result))


if __name__ == "__main__":
    main()
