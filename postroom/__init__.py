"""The program around the server: command line, configuration, composition root."""
