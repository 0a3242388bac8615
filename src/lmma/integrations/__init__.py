"""lmma inside other frameworks: each module is imported by who uses that framework, and by nobody else."""
