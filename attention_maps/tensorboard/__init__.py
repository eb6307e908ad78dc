"""The Attention tab of TensorBoard. Imports only the standard library, werkzeug and tensorboard."""
