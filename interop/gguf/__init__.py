"""Our GPTs in GGUF, the file format of llama.cpp and Ollama."""
