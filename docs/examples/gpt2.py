"""Attention maps of GPT-2 of the library transformers, also of what it writes. Then: tensorboard --logdir runs"""

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from attention_maps.hugging_face import record_attention

TEXT = "Emi prefers the apple over the orange because it is less acidic."

# With a network: AutoModelForCausalLM.from_pretrained("gpt2") and AutoTokenizer.from_pretrained("gpt2"). Here, random
# weights and a vocabulary of this text show the same maps of an untrained model.
trained = ByteLevelBPETokenizer()
trained.train_from_iterator([TEXT], vocab_size=400, min_frequency=1, special_tokens=["<|endoftext|>"])
tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, eos_token="<|endoftext|>")
torch.manual_seed(0)
config = GPT2Config(vocab_size=400, n_layer=4, n_head=4, n_embd=64, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).eval()

inputs = tokenizer(TEXT, return_tensors="pt")
with torch.no_grad(), record_attention(model, tokenizer) as recorded:
    model(input_ids=inputs["input_ids"])
recorded.save("runs/gpt2", step=0)

# What it writes: the maps of all cached steps together. Layers 1 and 3 alone; the others stay on the fused kernel.
with torch.no_grad(), record_attention(model, tokenizer, layers=[1, 3]) as written:
    model.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
written.save("runs/gpt2_writes")

recording = recorded.recording()
print(f"'it' attends to 'apple': {recording.weight('it', 'apple', kind='decoder', layer=2, head=0):.1%}")
for token in recording.strongest("it", kind="decoder", layer=2, head=0):
    print(f"  {token.piece:8} {token.weight:.1%}")
print(f"loss: {recording.loss:.2f} nats per token")
