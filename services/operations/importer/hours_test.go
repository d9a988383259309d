package importer

import (
	"strings"
	"testing"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// The days of a file of hours are kept in memory, so their number is bounded.
func TestHourlyIsBounded(t *testing.T) {
	t.Parallel()
	const day models.Date = 20_000
	h := newHourly(&stepsImport{
		check:   newLineCheck(nil, ""),
		buckets: map[models.Date]*models.Bucket{day: {}, day + 1: {}},
		board:   &catalog.Board{},
	})
	h.most = 2
	for _, l := range []StepsLine{{User: "a", Date: day}, {User: "a", Date: day + 1}, {User: "a", Date: day, Hour: 1}} {
		if err := h.add(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	err := h.add(t.Context(), StepsLine{User: "b", Date: day})
	if err == nil || !strings.Contains(err.Error(), "more than 2 days of users") {
		t.Errorf("a third day: %v", err)
	}
}
