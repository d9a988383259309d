package demo

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// When the demo begins, friends like the first person's steps of today and of yesterday. The
// people whom the guide shows have no likes of yesterday.
func TestDemoFirstLikes(t *testing.T) {
	t.Parallel()
	s := populated(t, testenv.Local(t), 400)
	for ago := range models.Date(2) {
		day := s.walkDay.day - ago
		for position := range firstRole {
			q := ranking.Query{Board: stepsBoard, Viewer: s.ids[position], Date: &day, Limit: 100}
			likers := testenv.Must(s.app.Likes.List(t.Context(), q, s.ids[position])).Likers
			if position == 0 && len(likers) == 0 || position > 0 && ago > 0 && len(likers) > 0 {
				t.Errorf("%d people like the steps of person %d, %d days ago", len(likers), position, ago)
			}
		}
	}
}

// Every cover is a picture of its own.
func TestDemoCovers(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for position := range 100 {
		picture := cover(position)
		seen[picture] = true
		decoder := xml.NewDecoder(strings.NewReader(picture))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("cover %d: %v", position, err)
			}
		}
	}
	if len(seen) != 100 {
		t.Errorf("100 people have %d covers", len(seen))
	}
}
