"""Commands on the recorded history."""
