package erasure

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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
		return nil, models.NoUser(user)
	}
	return func(ctx context.Context, w io.Writer) error {
		d := jsontext.NewEncoder(w)
		err := errors.Join(d.WriteToken(jsontext.BeginObject),
			d.WriteToken(jsontext.String("user_id")), writeValue(d, user),
			d.WriteToken(jsontext.String("exported_at")), writeValue(d, models.TimestampOf(s.now())))
		if err != nil {
			return err
		}
		for _, subject := range s.o.Subjects {
			if err := s.export(ctx, d, &subject, row, own); err != nil {
				return models.Unavailable("export "+subject.Name, err)
			}
		}
		return d.WriteToken(jsontext.EndObject)
	}, nil
}

func writeValue(d *jsontext.Encoder, value any) error {
	text, err := json.Marshal(value)
	return errors.Join(err, d.WriteValue(text))
}

// export writes what is stored about a user of a subject.
func (s *Service) export(ctx context.Context, d *jsontext.Encoder, subject *models.Subject, row models.RowID, own bool) error {
	for _, one := range subject.Export {
		if one.Secret && !own {
			continue
		}
		err := errors.Join(d.WriteToken(jsontext.String(one.Name)), d.WriteToken(jsontext.BeginArray))
		add := func(item any) error { return writeValue(d, item) }
		switch {
		case err != nil:
		case one.Each != nil:
			err = one.Each(ctx, row, add)
		default:
			err = s.o.Store.each(ctx, one, row, add)
		}
		if err == nil {
			err = d.WriteToken(jsontext.EndArray)
		}
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
