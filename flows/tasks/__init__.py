"""The tasks of the flow: each a few lines around one call of ``rlcore``."""
