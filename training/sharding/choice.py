"""Choose how the weights of a run are divided among its processes."""

from __future__ import annotations

from training.config import TrainConfig
from training.hardware.device import Hardware
from training.optimizer.weights_gradients_ema import Weights
from training.processes.single_process import Processes
from training.run_folder.loaded_run import Model


def weights_for(config: TrainConfig, model: Model, hardware: Hardware, processes: Processes) -> Weights:
    """Return the weights of a run on its device, in the form of `trainer.shard`. One process divides nothing."""
    if processes.world == 1 or config.trainer.shard == "none":
        return Weights(model.to(hardware.device), hardware.dtype, config.trainer.ema)
    return divided_weights(config, model, hardware, processes)


def divided_weights(config: TrainConfig, model: Model, hardware: Hardware, processes: Processes) -> Weights:
    """Return the weights in a divided form, in a process group."""
    if config.trainer.shard == "weights":
        from training.sharding.fully_sharded import FullyShardedWeights

        return FullyShardedWeights(model, hardware.device, hardware.dtype, config.trainer.ema, processes)
    from training.sharding.zero import ZeroWeights

    whole = config.optim.kind != "adamw"
    return ZeroWeights(model.to(hardware.device), hardware.dtype, config.trainer.ema, processes, whole_matrices=whole)
