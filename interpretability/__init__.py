"""Record what the project's own models attend to and predict: maps, contributions to logits, circuits, behaviours."""
