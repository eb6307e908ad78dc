"""Export a run as one HTML file that runs the model in the browser."""
