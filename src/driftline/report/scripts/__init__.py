"""Scripts that run by themselves: a program, its inputs and the call of one compiler, written as Python text."""
