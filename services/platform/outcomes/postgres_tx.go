package outcomes

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// InPgx returns a transaction of pgx.
func InPgx(ctx context.Context, tx pgx.Tx) Tx { return pgxTx{ctx, tx} }

type pgxTx struct {
	ctx context.Context //nolint:containedctx // of the transaction, which is as short-lived
	tx  pgx.Tx
}

func (t pgxTx) Exec(query string, args ...any) error {
	_, err := t.tx.Exec(t.ctx, numbered(query), args...)
	return err
}

func (t pgxTx) Scan(value any, query string, args ...any) (found bool, err error) {
	err = t.tx.QueryRow(t.ctx, numbered(query), args...).Scan(value)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// numbered returns the query with $1, $2, … in place of its question marks.
func numbered(query string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}
