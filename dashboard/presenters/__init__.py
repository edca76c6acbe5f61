"""Domain results turned into what a page shows; pure."""
