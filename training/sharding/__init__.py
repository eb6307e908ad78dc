"""Weights and optimiser state divided among the processes of a run: ZeRO 1 and FSDP2."""
