"""Attention maps of BERT, an encoder, during its training by transformers' Trainer. Then: tensorboard --logdir runs"""

import torch
from tokenizers import BertWordPieceTokenizer
from tokenizers.processors import BertProcessing
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from attention_maps.hugging_face import AttentionCallback

TEXTS = ["Emi prefers the apple over the orange.", "The cat came because it was hungry.", "Ken gave a book to her."]

# With a network: AutoTokenizer.from_pretrained("bert-base-uncased") and AutoModelForMaskedLM.from_pretrained(…).
trained = BertWordPieceTokenizer()
trained.train_from_iterator(TEXTS, vocab_size=120)
ends = [(token, trained.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
trained._tokenizer.post_processor = BertProcessing(*ends)
special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **special)
torch.manual_seed(0)
config = BertConfig(vocab_size=120, num_hidden_layers=2, num_attention_heads=4, hidden_size=64, intermediate_size=128)
model = BertForMaskedLM(config)

data = [{"input_ids": tokenizer(text)["input_ids"]} for text in TEXTS * 8]
arguments = TrainingArguments(
    output_dir="runs/bert", max_steps=12, per_device_train_batch_size=8, eval_strategy="steps", eval_steps=4,
    report_to=["tensorboard"], save_strategy="no", use_cpu=True, learning_rate=1e-3, disable_tqdm=True,
)  # fmt: skip
trainer = Trainer(
    model, arguments, train_dataset=data, eval_dataset=data[:3],
    data_collator=DataCollatorForLanguageModeling(tokenizer),
    callbacks=[AttentionCallback(TEXTS[:2], tokenizer, every=2)],  # beside the curves, within 1% of the time
)  # fmt: skip
trainer.train()
