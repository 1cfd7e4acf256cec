"""One task per inbox, and the registry that finds, starts and restarts them."""
