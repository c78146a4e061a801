"""Client for language models that write programs, over `/v1/chat/completions`. Every answer is kept in the store.

Nothing that a model writes is run here, and no compiler is imported: the text goes to a worker (`generate/llm.py`).
"""
