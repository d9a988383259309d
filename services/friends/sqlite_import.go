package friends

import (
	"strconv"

	"stepboard/models"
)

// sqliteStager passes edges as one JSON text, because the driver's time grows with the
// square of the parameters.
type sqliteStager struct{}

func (sqliteStager) create(t *tx) error {
	for _, statement := range []string{
		`CREATE TEMPORARY TABLE IF NOT EXISTS import_edges (a bigint NOT NULL, b bigint NOT NULL)`,
		`CREATE TEMPORARY TABLE IF NOT EXISTS import_gains (user_id bigint PRIMARY KEY, gained bigint NOT NULL)`,
		`DELETE FROM import_edges`,
	} {
		if err := t.db.Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

func (sqliteStager) copy(t *tx, edges []models.Edge) error {
	list := []byte("[")
	for i, e := range edges {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(append(list, '['), int64(e.A), 10)
		list = strconv.AppendInt(append(list, ','), int64(e.B), 10)
		list = append(list, ']')
	}
	list = append(list, ']')
	return t.db.Exec(`INSERT INTO import_edges (a, b) SELECT value ->> 0, value ->> 1 FROM json_each(?)`, string(list)).Error
}

// lock locks nothing: the database runs one transaction at a time.
func (sqliteStager) lock(*tx) (above bool, err error) { return true, nil }
