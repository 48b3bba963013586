"""The experiments that the wheel carries: YAML files, and nothing else."""
