"""How to use an exported folder in transformers: the part of the model card that is about it."""

from __future__ import annotations

from interop.export_input import Trained
from interop.huggingface.imported import is_imported
from interop.huggingface.modeling_chumoku import ChumokuConfig
from interop.model_card import Usage
from model.gpt import GPT

WRITING = """```python
from transformers import pipeline

write = pipeline("text-generation", "FOLDER")
print(write("PROMPT")[0]["generated_text"])
```"""

OURS = "A text begins and ends with the token eos, which the tokenizer puts before a prompt."

IMPORTED = """In training, every text began with the token `START`; the tokenizer does not put it before a prompt, but
`generate.py` does."""

DIFFERENCES = """Differences from `generate.py`: the generation settings stop after half the context, because
transformers does not shift a full context."""

TRANSLATING = """```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("FOLDER"CODE)
model = AutoModelForSeq2SeqLM.from_pretrained("FOLDER"CODE)
inputs = tokenizer(["SENTENCE"], return_tensors="pt", padding=True, truncation=True)
print(TARGET.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```

The generation settings are those of the run's tests: beam search, as in `generate.py`, which also strips white space
around a sentence."""

LIMIT = """ `generate.py` limits a translation to three times the length of its source plus 10 tokens; for the same,
call `generate` for one sentence with `max_length=min(3 * inputs["input_ids"].shape[1] + 11, CONTEXT)`."""

CODE = """ The folder brings the code of the model with it, `modeling_chumoku.py`, because no encoder-decoder of
transformers has this architecture."""


def usage(trained: Trained, model_type: str, target_tokenizer: str | None) -> Usage:
    """Return the usage of a folder. target_tokenizer: its folder, if the target has one of its own."""
    if isinstance(trained.model, GPT):
        first = trained.tokenizers[0]
        ends = IMPORTED.replace("START", first.spellings[first.start_id]) if is_imported(trained) else OURS
        text = f"{WRITING}\n\n{ends} {DIFFERENCES}"
        return Usage("transformers", [model_type], text.replace("PROMPT", "Once upon a time"))
    is_chumoku = model_type == ChumokuConfig.model_type
    text = TRANSLATING.replace("CODE", ", trust_remote_code=True" if is_chumoku else "") + (
        CODE if is_chumoku else LIMIT.replace("CONTEXT", str(trained.model.config.context))
    )
    text = text.replace("SENTENCE", "I like apples.")
    if target_tokenizer:
        load = f'target = AutoTokenizer.from_pretrained("FOLDER/{target_tokenizer}")'
        text = text.replace("model = ", f"{load}\nmodel = ").replace("TARGET", "target")
    return Usage("transformers", [model_type], text.replace("TARGET", "tokenizer"))
