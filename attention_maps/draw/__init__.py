"""Pictures of attention maps."""
