"""The published proto files of package `postroom`, and the code that the build generates from them."""
