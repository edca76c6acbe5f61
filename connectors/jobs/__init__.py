"""Long computations that run beside the pages: asked for, followed and stopped by a person."""
