"""Programs that a language model writes for the lanes of a hunt."""
