"""Plans that set and remove policies: built, checked, and seen through to what they move."""
