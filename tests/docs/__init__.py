"""The documentation as a whole: that the site builds, that its links lead somewhere, that its examples are checked."""
