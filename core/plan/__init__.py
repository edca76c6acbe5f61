"""Plans: model, build, project, preview, codec."""
