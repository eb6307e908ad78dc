"""Model options that CTranslate2 cannot compute exactly. This module imports neither torch nor CTranslate2."""

from __future__ import annotations

from interop.imported_options import foreign_options
from model.config import ModelConfig

FORMAT = 3
"""Version of what `interop.ctranslate.export.write_model` writes; increment it when that changes, so that the exports
in run folders are written again."""


CARRIED = ("activation", "block", "embedding_scale", "norm_eps", "output_bias")
"""Options of models that come from elsewhere which CTranslate2 computes."""


def refusals(config: ModelConfig, task: str) -> dict[str, str]:
    """Return one sentence for each option of a model (task: gpt or translate) that CTranslate2 does not have, naming
    the option, with what to train instead; empty if it computes the model exactly."""
    refused = foreign_options(config, "CTranslate2", CARRIED)
    if config.token_shift and task == "gpt":
        sentence = "model.token_shift=true: CTranslate2 does not add the vector of the token before"
        refused[sentence] = "model.token_shift=false"
    # Its decoder splits the queries of cross-attention into heads after their norm (4.8, attention.cc), while it
    # normalises the queries of self-attention, and all keys, head by head. With one head both are the same.
    if config.cross_qk_norm and config.heads > 1 and task == "translate":
        sentence = (
            "model.cross_qk_norm=true: CTranslate2 normalises the queries of cross-attention over all heads together, "
            "not over each head"
        )
        refused[sentence] = "model.cross_qk_norm=false"
    return refused
