"""The Attention tab of TensorBoard. Imports nothing but the standard library, werkzeug and tensorboard itself."""
