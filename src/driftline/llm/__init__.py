"""Language models that write programs: asked over `/v1/chat/completions`, every answer kept in the store.

Nothing that a model writes is run here, and no compiler is imported: the text goes to a worker (`generate/llm.py`).
"""
