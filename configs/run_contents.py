"""Check what a run folder contains.

Defined in `attention_maps`, which is published without the rest of the project.
"""

from attention_maps.base.run_contents import check_contents, leads_out

__all__ = ["check_contents", "leads_out"]
