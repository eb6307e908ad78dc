"""Models of Hugging Face transformers become ours: config.json, weights and tokenizer of a folder on this machine.

Nothing of transformers is needed, and nothing in the folder is executed. One file for each architecture says which of
our settings it is, and which of our weights each of its tensors is; the same table, read backwards, writes such a
folder.
"""
