"""A page of a trained run: one HTML file with the Attention tab and the model, which the browser runs."""
