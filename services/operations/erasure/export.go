package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"stepboard/models"
)

// Export returns a function that writes everything that is stored about a user as one JSON
// document: what an erasure would remove, without what is secret unless it is the user's own. It has no row ids, and of others only the user
// ids that the user knows; not who hides from them. After an error the document is
// incomplete. Memory does not grow with the document, and while a section is written no connection
// is held. One query for each section or exportRows of it, each within pageTimeout, and one round
// trip to Redis. CodeUserNotFound if there is no such user.
func (s *Service) Export(
	ctx context.Context, user models.UserID, own bool,
) (write func(context.Context, io.Writer) error, err error) {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil {
		return nil, err
	}
	if row == 0 {
		return nil, errNoUser(user)
	}
	return func(ctx context.Context, w io.Writer) error {
		d := &document{w: w}
		d.member("user_id", user)
		d.member("exported_at", models.TimestampOf(s.now()))
		for _, subject := range s.o.Subjects {
			if err := s.export(ctx, d, &subject, row, own); err != nil {
				return models.Unavailable("export "+subject.Name, err)
			}
		}
		return d.end()
	}, nil
}

// document writes a JSON object member by member. The first error of writing ends it.
type document struct {
	w       io.Writer
	members int
	items   int // of the array that is being written
	err     error
}

func (d *document) text(text string) {
	if d.err == nil {
		_, d.err = io.WriteString(d.w, text)
	}
}

func (d *document) value(value any) {
	text, err := json.Marshal(value)
	d.err = errors.Join(d.err, err)
	d.text(string(text))
}

func (d *document) name(name string) {
	if d.members++; d.members == 1 {
		d.text("{")
	} else {
		d.text(",\n")
	}
	d.value(name)
	d.text(":")
}

func (d *document) member(name string, value any) {
	d.name(name)
	d.value(value)
}

// array writes a member that is an array, whose items fill adds by item.
func (d *document) array(name string, fill func() error) error {
	d.name(name)
	d.text("[")
	d.items = 0
	if err := fill(); err != nil {
		return err
	}
	d.text("]")
	return d.err
}

func (d *document) item(value any) {
	if d.items++; d.items > 1 {
		d.text(",\n")
	}
	d.value(value)
}

func (d *document) end() error {
	d.text("}\n")
	return d.err
}

// export writes what is stored about a user of a subject.
func (s *Service) export(ctx context.Context, d *document, subject *models.Subject, row models.RowID, own bool) error {
	for _, one := range subject.Export {
		if one.Secret && !own {
			continue
		}
		add := func(item any) error {
			d.item(item)
			return d.err
		}
		err := d.array(one.Name, func() error {
			if one.Each != nil {
				return one.Each(ctx, row, add)
			}
			return s.o.Store.each(ctx, one, row, add)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// showScores replaces the points in a row's columns of these names by scores.
func showScores(fields map[string]any, points []string) {
	if len(points) == 0 {
		return
	}
	order, _ := fields["score_order"].(string)
	largest, _ := fields["max_score"].(int64)
	bucket := &models.Bucket{Order: models.Order(order), MaxScore: largest}
	delete(fields, "score_order")
	delete(fields, "max_score")
	for _, name := range points {
		if value, ok := fields[name].(int64); ok {
			fields[name] = bucket.Score(models.Points(value))
		}
	}
}

// shown returns a value of a column as an export shows it.
func shown(column string, value any) any {
	isDate := column == "date" || strings.HasSuffix(column, "_day")
	switch v := value.(type) {
	case []byte:
		return string(v)
	case string:
		if isDate {
			return v[:min(len(v), len(time.DateOnly))]
		}
		return v
	case time.Time:
		if isDate {
			return v.UTC().Format(time.DateOnly)
		}
		return models.TimestampOf(v)
	default:
		return v
	}
}
