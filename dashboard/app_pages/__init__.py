"""The pages, a folder each: the script, its widgets (`view`) and its numbers (`model`)."""
