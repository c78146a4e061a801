"""Write scripts that run by themselves: a program, its inputs and a compiler call as Python text."""
