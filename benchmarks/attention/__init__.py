"""Benchmarks of recording and displaying attention maps, and alignment error rate on KFTT."""
