"""Searching messages, as pure rules: what a word is, which text of a message is found, what a question means."""
