"""How to use an exported folder with CTranslate2: the part of the model card that is about it."""

from __future__ import annotations

from collections.abc import Sequence

from data.tokens.marian_tokenizer import MarianTokenizer
from interop.export_input import Trained
from interop.model_card import Usage
from model.gpt import GPT

WRITING = """```python
import ctranslate2
import sentencepiece

pieces = sentencepiece.SentencePieceProcessor("FOLDER/sentencepiece.model")
generator = ctranslate2.Generator("FOLDER")
prompt = [START, *pieces.encode("Once upon a time", out_type=str)]
options = {"sampling_temperature": 0.8, "sampling_topk": 0, "max_length": LENGTH, "include_prompt_in_result": False}
(result,) = generator.generate_batch([prompt], **options)
print("Once upon a time" + pieces.decode(result.sequences[0]))
```

A text begins with the token START and may have CONTEXT tokens, as many as in training."""

TRANSLATING = """```python
import ctranslate2
import sentencepiece

source = sentencepiece.SentencePieceProcessor("FOLDER/SOURCE")
target = sentencepiece.SentencePieceProcessor("FOLDER/TARGET")
translator = ctranslate2.Translator("FOLDER")
options = {"beam_size": BEAMS, "length_penalty": PENALTY, "max_decoding_length": LENGTH}
(result,) = translator.translate_batch([source.encode("I like apples.", out_type=str)], **options)
print(target.decode(result.hypotheses[0]))
```

The settings of the search are those of the run's tests. Differences: `generate.py` may find an empty translation
(`min_decoding_length=0`), and limits a translation to three times the length of its source plus 10 tokens."""

INT8 = """The weights are float32; `compute_type="int8"` rounds them while they are loaded."""

ESCAPES = """In a text, `generate.py` also escapes tabs, carriage returns and the character ▁, which SentencePiece alone
changes."""

TAGS = """In models of several languages, a tag of the target language at the start of a source, such as `>>jpn<<`, is
one token, before the pieces of the rest."""


def usage(trained: Trained, files: Sequence[str]) -> Usage:
    """Return the usage of a folder. files: its SentencePiece models, of source and target or of both."""
    context, tokenizer = trained.model.config.context, trained.tokenizers[0]
    if isinstance(trained.model, GPT):
        values = {"START": repr(tokenizer.spellings[tokenizer.start_id]), "LENGTH": context // 2, "CONTEXT": context}
        text = WRITING
    else:
        trainer = trained.config["trainer"]
        values = {"SOURCE": files[0], "TARGET": files[-1], "LENGTH": context - 1}
        values |= {"BEAMS": trainer["beam_size"], "PENALTY": trainer["length_penalty"]}
        text = TRANSLATING
    for name, value in values.items():
        text = text.replace(name, str(value))
    more = TAGS if isinstance(tokenizer, MarianTokenizer) else ESCAPES
    return Usage("ctranslate2", ["ctranslate2"], f"{text}\n\n{INT8} {more}")
