package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/score"
)

// Export returns a function that writes everything that is stored about a user as one JSON
// document: what an erasure would remove. It has no row ids, and of others only the user
// ids that the user knows; not who hides from them. After an error the document is
// incomplete. Memory does not grow with the document, and while a part is written no connection
// is held. One query for each section or exportRows of it, each within pageTimeout, and one round
// trip to Redis. CodeUserNotFound if there is no such user.
func (s *Service) Export(
	ctx context.Context, user models.UserID,
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
		for _, p := range s.parts {
			if err := p.export(ctx, d, row); err != nil {
				return models.Unavailable("export "+p.name, err)
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

// export returns the export of a part that consists of sections.
func (s *Service) export(sections []models.ExportSection) func(ctx context.Context, d *document, row models.RowID) error {
	return func(ctx context.Context, d *document, row models.RowID) error {
		for _, one := range sections {
			err := d.array(one.Name, func() error {
				return s.o.Store.each(ctx, one, row, func(fields map[string]any) error {
					d.item(fields)
					return d.err
				})
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// storedScore is a score in Redis in an export.
type storedScore struct {
	Board     string           `json:"board"`
	Date      string           `json:"date"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
	// Kept says where it is: on the board, among what is kept apart because of a
	// correction, or among updates that came late.
	Kept string `json:"kept"`
}

func (s *Service) exportScores(ctx context.Context, d *document, row models.RowID) error {
	buckets, err := s.o.Store.hotBuckets(ctx, s.now())
	if err != nil {
		return err
	}
	entries, err := s.o.Entries.Stored(ctx, buckets, row)
	if err != nil {
		return err
	}
	return d.array("current_scores", func() error {
		for _, e := range entries {
			points, at := score.Of(e.Bucket).Decode(e.Composite)
			d.item(storedScore{e.Bucket.Board, e.Bucket.Day.String(), points, at, string(e.Key)})
		}
		return nil
	})
}

// exportArchive is the export of the archive, whose query depends on the database.
func (s *Service) exportArchive(ctx context.Context, d *document, row models.RowID) error {
	return s.export(archive.ExportSections(s.o.Store.db.Name()))(ctx, d, row)
}

func (s *Service) exportDeadLetters(ctx context.Context, d *document, row models.RowID) error {
	return d.array("dead_letters", func() error {
		return s.o.DeadLetters.Each(ctx, row, func(_ int64, u ingest.Update) error {
			d.item(map[string]any{"board": u.Board, "bucket": u.Bucket, "score": u.Score, "reached_at": u.ReachedAt})
			return d.err
		})
	})
}

func (s *Service) exportDeliveries(ctx context.Context, d *document, row models.RowID) error {
	return d.array("webhooks", func() error {
		return s.o.Deliveries.Each(ctx, row, func(one models.Delivery) error {
			d.item(map[string]any{
				"type": one.Type, "state": one.State, "created_at": models.TimestampOf(one.CreatedAt),
			})
			return d.err
		})
	})
}

// shown returns a value of a column as an export shows it.
func shown(column string, value any) any {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case string:
		if column == "date" {
			return v[:min(len(v), len(time.DateOnly))]
		}
		return v
	case time.Time:
		if column == "date" {
			return v.UTC().Format(time.DateOnly)
		}
		return models.TimestampOf(v)
	default:
		return v
	}
}
