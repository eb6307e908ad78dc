"""Attention maps of Marian: encoder, decoder and cross-attention. Then: tensorboard --logdir runs"""

import torch
from tokenizers import SentencePieceUnigramTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import MarianConfig, MarianMTModel, PreTrainedTokenizerFast

from attention_maps.hugging_face import record_attention, record_texts

ENGLISH, JAPANESE = "Emi prefers the apple over the orange.", "エミはオレンジよりりんごの方が好きです。"

# With a network: AutoModelForSeq2SeqLM.from_pretrained("Helsinki-NLP/opus-mt-en-jap"), and AutoTokenizer likewise.
trained = SentencePieceUnigramTokenizer()
special = ["<pad>", "</s>", "<unk>"]
trained.train_from_iterator([ENGLISH, JAPANESE], vocab_size=60, special_tokens=special, unk_token="<unk>")
trained._tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **names)
torch.manual_seed(0)
config = MarianConfig(
    vocab_size=60, d_model=64, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=128, decoder_ffn_dim=128, pad_token_id=0, eos_token_id=1, bos_token_id=1, forced_eos_token_id=None,
    decoder_start_token_id=0,
)  # fmt: skip
model = MarianMTModel(config).eval()

inputs = tokenizer(ENGLISH, return_tensors="pt")
labels = tokenizer(text_target=JAPANESE, return_tensors="pt")["input_ids"]
with torch.no_grad(), record_attention(model, tokenizer) as recorded:
    model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels)
recorded.save("runs/marian", step=0, names=["reference"])

# In one line, with the model's own translation of the second sentence. Two vocabularies are a pair (source, target).
recording = record_texts(model, tokenizer, [(ENGLISH, JAPANESE), "Emi prefers the apple."], step=1)
for kind in ("encoder", "decoder", "cross"):
    print(f"{kind}: {recording.maps(0, kind, 2).shape} heads, queries, keys")
