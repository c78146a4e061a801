"""The guided tour: find a real miscompile, judge, shrink, blame and bisect it, and write it up, explaining every step.

cases.py   programs that real compilers get plainly wrong; the first that fails on this machine is shown
steps.py   the six steps, each a call of what the commands call
guide.py   runs them one after another: what is skipped, what is waited for, what is printed
"""
