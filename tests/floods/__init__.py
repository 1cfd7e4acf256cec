"""Floods, and the honest client beside them: is it still answered, what does the server need and give back."""
