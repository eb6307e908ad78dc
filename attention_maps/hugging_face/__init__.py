"""Record the attention of any model of the library transformers: maps of a forward pass, of `generate`, of a Trainer.

from attention_maps.hugging_face import record_attention

with torch.no_grad(), record_attention(model, tokenizer) as recorded:
    model(**tokenizer("Emi likes apples.", return_tensors="pt"))
recorded.save("runs/gpt2")  # tensorboard --logdir runs
"""

try:
    import transformers as transformers
except ModuleNotFoundError as missing:
    if missing.name != "transformers":
        raise
    raise ModuleNotFoundError(
        "attention_maps.hugging_face needs the library transformers: pip install 'chumoku[huggingface]'"
    ) from None

from attention_maps.hugging_face.callback import AttentionCallback
from attention_maps.hugging_face.record import Recorded, record_attention
from attention_maps.hugging_face.texts import record_texts

__all__ = ["AttentionCallback", "Recorded", "record_attention", "record_texts"]
