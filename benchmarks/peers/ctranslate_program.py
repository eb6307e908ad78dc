"""Decode standard input with CTranslate2 alone, as its documentation shows: the peer of `generate.py` in `end_to_end`.

    python benchmarks/peers/ctranslate_program.py FOLDER COMPUTE_TYPE WORKERS BEAM_SIZE < sentences    (a translator)
    python benchmarks/peers/ctranslate_program.py FOLDER COMPUTE_TYPE WORKERS 0 NEW_TOKENS START < prompt       (a GPT)

FOLDER is written by `export.py format=ctranslate2`. Only CTranslate2 and SentencePiece are imported.
"""

from __future__ import annotations

import sys

import ctranslate2
import sentencepiece

folder, compute, workers, beam_size, *writing = sys.argv[1:]
pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/sentencepiece.model")
options = {"compute_type": compute, "inter_threads": int(workers), "intra_threads": 1}
text = sys.stdin.read()
if writing:
    new_tokens, start = writing
    generator = ctranslate2.Generator(folder, **options)
    prompt = [start, *pieces.encode(text, out_type=str)]
    (written,) = generator.generate_batch(
        [prompt], max_length=int(new_tokens), sampling_topk=1, include_prompt_in_result=False
    )
    print(text + pieces.decode(written.sequences[0]))
else:
    translator = ctranslate2.Translator(folder, **options)
    sources = pieces.encode(text.splitlines(), out_type=str)
    for result in translator.translate_batch(sources, beam_size=int(beam_size), max_batch_size=64):
        print(pieces.decode(result.hypotheses[0]))
