"""The pages and the trimtab command."""
