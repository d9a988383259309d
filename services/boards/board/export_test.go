package board

// MoveFrom sets how many raises wait before they are moved.
func (h *HotScores) MoveFrom(raises int) { h.batches.moveFrom = raises }
