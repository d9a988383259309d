package testenv_test

import (
	"slices"
	"strconv"
	"testing"

	"stepboard/internal/testenv"
)

// A few forms are always tried, all others within some rounds, and all in make soak.
func TestForms(t *testing.T) {
	all := make([]int, 23)
	for i := range all {
		all[i] = i
	}
	for few := range 24 {
		t.Setenv("TEST_FORMS", "all")
		if got := testenv.Forms(t, few, all); !slices.Equal(got, all) {
			t.Errorf("make soak tries %v", got)
		}
		var always []int
		if few > 0 {
			t.Setenv("TEST_FORMS", "")
			if always = testenv.Forms(t, few, all); len(always) != few {
				t.Errorf("%d forms are %v", few, always)
			}
		}
		tried, rounds := make(map[int]bool), 0
		for ; len(tried) < len(all) && rounds < 20; rounds++ {
			t.Setenv("TEST_FORMS", strconv.Itoa(20_000+rounds))
			got := testenv.Forms(t, few, all)
			for _, i := range always {
				if !slices.Contains(got, i) {
					t.Errorf("round %d tries %v without %d", rounds, got, i)
				}
			}
			if len(got) > few+3 {
				t.Errorf("%d forms and a share of the others are %v", few, got)
			}
			for _, i := range got {
				tried[i] = true
			}
		}
		if rounds > 10 {
			t.Errorf("all forms are tried in %d rounds", rounds)
		}
	}
}
