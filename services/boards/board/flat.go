package board

import (
	"stepboard/models"
	"stepboard/services/boards/orderlist"
)

const (
	// flatUsers is how many row ids a page of a flat table covers.
	flatUsers = 512
	// maxRow is the largest row id that Local takes. Row ids have nearly no gaps, so the table
	// stays as small as its users are many.
	maxRow = orderlist.MaxRow
)

// flat holds the entries of a set twice: by user in a table of pages, and in ranking order. About
// 25 bytes for each entry, if nearly all users have one. The zero flat is empty. Not safe for
// concurrent use.
type flat struct {
	pages []*[flatUsers]models.Composite
	order orderlist.List
}

// of returns a user's composite, 0 for a user without one.
func (f *flat) of(user models.RowID) models.Composite {
	if page := uint64(user) / flatUsers; page < uint64(len(f.pages)) && f.pages[page] != nil {
		return f.pages[page][user%flatUsers]
	}
	return 0
}

// ofAll returns the composites of users, by position.
func (f *flat) ofAll(users []models.RowID) []models.Composite {
	composites := make([]models.Composite, len(users))
	for i, user := range users {
		composites[i] = f.of(user)
	}
	return composites
}

// set replaces a user's composite; 0 removes it. The row id is 1 to maxRow.
func (f *flat) set(user models.RowID, composite models.Composite) {
	page := int(user / flatUsers)
	if page >= len(f.pages) {
		f.pages = append(f.pages, make([]*[flatUsers]models.Composite, page+1-len(f.pages))...)
	}
	if f.pages[page] == nil {
		f.pages[page] = new([flatUsers]models.Composite)
	}
	cell := &f.pages[page][user%flatUsers]
	if *cell != 0 {
		f.order.Remove(models.Entry{User: user, Composite: *cell})
	}
	if *cell = composite; composite != 0 {
		f.order.Insert(models.Entry{User: user, Composite: composite})
	}
}

// position returns a user's position.
func (f *flat) position(user models.RowID) Position {
	p := Position{Composite: f.of(user), Total: int64(f.order.Len())}
	if p.Composite != 0 {
		p.Rank = int64(f.order.Before(models.Entry{User: user, Composite: p.Composite})) + 1
	}
	return p
}
