"""Write recordings as safetensors files and read them with strict validation."""
