"""What Fillwright costs, measured: one module for each figure, each run in a process of its own."""
