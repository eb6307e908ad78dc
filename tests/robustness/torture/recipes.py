"""The two runs that are tortured: small, but with everything that has a state or writes a file."""

from __future__ import annotations

COMMON = """
name=run data.cache=cache model.layers=2 model.heads=2 model.width=32 model.dropout=0.1 schedule.warmup=5
trainer.compile=off trainer.device=cpu trainer.precision=float32 trainer.threads=1
trainer.steps=40 trainer.evaluate_every=8 trainer.log_every=3 trainer.limit_evaluations=false trainer.accumulate=2
trainer.ema=0.9 trainer.keep=2 trainer.samples=1 attention.examples=1 attention.scored=8 attention.keep=4
attention.importance=true
""".split()
"""Evaluations depend on the step alone: the result must not depend on the load of the machine. Log lines, evaluations
and epochs end at different steps."""

RECIPES = {
    "gpt": [*COMMON, *"model.context=96 trainer.batch_size=2 data.stories=150 tokenizer.vocab_size=300".split()],
    "translate": [
        *COMMON,
        *"""task=translate optim=muon tokenizer=unigram tokenizer.sampling=0.1 tokenizer.vocab_size=480 model.context=64
        data.sentences=220 data.batch_tokens=256 trainer.beam_size=2 trainer.evaluate_sentences=8""".split(),
    ],
}
"""Arguments of train.py by task: AdamW and Muon, BPE and unigram with subword sampling; at least two epochs."""

RUN = "runs/run"
"""The run folder, relative to the folder in which train.py is started."""
