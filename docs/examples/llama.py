"""Attention maps of a Llama-like model with grouped heads, of a batch with padding. Then: tensorboard --logdir runs"""

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from attention_maps.hugging_face import record_attention

TEXTS = ["Emi prefers the apple over the orange because it is less acidic.", "Ken gave a book to Lucy."]

# With a network: AutoModelForCausalLM.from_pretrained("TinyLlama/TinyLlama-1.1B-Chat-v1.0"), AutoTokenizer likewise.
trained = ByteLevelBPETokenizer()
trained.train_from_iterator(TEXTS, vocab_size=400, min_frequency=1, special_tokens=["<s>", "</s>"])
special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained._tokenizer, **special)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=400, hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=8,
    num_key_value_heads=2, bos_token_id=0, eos_token_id=1,
)  # fmt: skip
model = LlamaForCausalLM(config).to(torch.bfloat16).eval()

inputs = tokenizer(TEXTS, return_tensors="pt", padding=True)
with torch.no_grad(), record_attention(model, tokenizer, layers=[0, 3]) as recorded:
    model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
recorded.save("runs/llama")

weights = recorded.weights["decoder", 3]  # [texts, heads, queries, keys], with the padding that files leave out
print(f"8 query heads share 2 heads of keys: {tuple(weights.shape)}, {weights.dtype}")
print(f"rows sum to {weights[0].sum(dim=-1).mean():.4f}; weights of later tokens: {weights.triu(1).abs().max():.0f}")
print(f"largest difference from the model's own attention, of bfloat16: {recorded.deviation:.1e}")
for sample in recorded.recording().samples:
    print(sample.name, len(sample.reads), "tokens:", *sample.reads.pieces)
