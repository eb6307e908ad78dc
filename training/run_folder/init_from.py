"""Origin of a new run (`init_from`): another run, or a folder of Hugging Face transformers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from configs.errors import UserError
from configs.program import expanded
from data.config import TokenizerConfig
from interop.pretrained.folder import Pretrained, is_pretrained, read_folder
from model.config import ModelConfig
from training.config import TrainConfig
from training.run_folder.saved_config import load_config, run_and_checkpoint

HUB = re.compile(r"[\w.-]+/[\w.-]+")
"""Name of a model on the hub: owner/name."""

OWN = ("dropout", "attention_dropout")
"""Settings of the model that a new run does not inherit."""


@dataclass(frozen=True)
class Origin:
    """Task, model and tokenizer that a new run inherits."""

    task: str
    model: ModelConfig
    tokenizer: TokenizerConfig
    pretrained: Pretrained | None = None
    """The folder of transformers; None for a run."""


def read_origin(init_from: str) -> Origin:
    """Read the config of the run, or of the folder of transformers, that `init_from` names, without torch. Raises
    UserError."""
    path = expanded(init_from)
    if HUB.fullmatch(init_from) and not path.parent.exists():
        download = f"hf download {init_from} --local-dir {path.name}"
        raise UserError(
            f"init_from={init_from}: no such run folder; a model of the hub is downloaded first: {download}"
        )
    if is_pretrained(path):
        from interop.pretrained.tokenizers import tokenizer_config  # late: most runs need no tokenizer here

        source = read_folder(path)
        return Origin(source.architecture.task, source.config, tokenizer_config(source), source)
    config = load_config(run_and_checkpoint(path)[0])
    return Origin(config.task, config.model, config.tokenizer)


def inherited(config: TrainConfig, origin: Origin) -> TrainConfig:
    """Return the config with the origin's model and tokenizer. Windows of a model of transformers may be shorter."""
    overrides = {name: getattr(config.model, name) for name in OWN}
    if origin.pretrained is not None:
        overrides["context"] = min(config.model.context, origin.model.context)
    return replace(config, model=replace(origin.model, **overrides), tokenizer=origin.tokenizer)
