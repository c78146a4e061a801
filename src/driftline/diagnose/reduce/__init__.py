"""Make failing programs smaller.

graph.py       the abstract graph that every form is read into    cutting.py     programs of fewer nodes
search.py      memo, budget, the smallest so far, the log         nodes.py       which nodes are needed
order.py       what is smaller                                    plainer.py     shapes, dtypes, numbers
attributes.py  less in the attributes of a node                   shrinking.py   the order of all these steps
fx_*.py, onnx_graph.py, tasks.py   in workers: reading, running and writing graphs
text.py        Python text instead of a graph                     values.py      what inputs hold
meaning.py     flaws that a candidate must not have, by operator and argument
asking.py      the predicate: does it fail, and in the same way (signature.py)?
reading.py     from a case to a graph or text                     reducer.py     the whole course
"""
