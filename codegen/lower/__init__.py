"""Lowering: from blocks to flat loops over flat memory, one small pass after another."""

from __future__ import annotations

from codegen.lower.check_supported import check_supported
from codegen.lower.compact_buffers import compact_buffers
from codegen.lower.flatten_buffers import flatten_buffers
from codegen.lower.lower_init import lower_init
from codegen.lower.lower_match_buffers import lower_match_buffers
from codegen.lower.open_blocks import open_blocks
from codegen.lower.place_allocations import place_allocations
from codegen.lower.remove_blocks import remove_blocks
PASSES=[(f.__name__,f) for f in (check_supported,lower_init,place_allocations,open_blocks,compact_buffers,lower_match_buffers,remove_blocks,flatten_buffers)]
