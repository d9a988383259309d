package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"database/sql"

	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/shipping"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// copies are those of a data folder, which survive it.
type copies struct {
	random *rand.Rand
	target *backupstest.Memory
	known  []copied
}

// copied is what a restore to a time made.
type copied struct {
	at   time.Time
	dump uint64
}

func newCopies(seed uint64) copies {
	return copies{random: rand.New(rand.NewPCG(seed, 5)), target: backupstest.NewMemory()}
}

// gated is a target that a process which has died does not reach.
type gated struct {
	backups.Target
	gate *gate
}

func (g gated) Create(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	if g.gate.crashed() {
		return errors.New("the process is dead")
	}
	return g.Target.Create(ctx, name, from, size)
}

// ship lets a process of a data folder ship it.
func (w *world) ship(r *replica, now models.Clock) {
	r.shipper = must(shipping.New(w.t.Context(), shipping.Options{
		Stores: r.stores, Target: gated{w.copies.target, r.gate}, Clock: now, Log: testenv.Log(),
		Backup: config.Backup{To: "memory", Interval: time.Millisecond, Retain: 7 * 24 * time.Hour, MaxLag: 64 << 20},
		Pause:  func(context.Context, time.Duration) error { return nil },
	}))
}

// shipSomething lets the process ship what it has committed. Then a database that is made of the copies
// must be what it has, and one of an earlier moment what it had.
func (w *world) shipSomething() {
	random := w.copies.random
	r := w.replicas[0]
	if w.store != onFile || random.IntN(12) > 0 || r.app == nil || r.gate.crashed() {
		return
	}
	ctx := w.t.Context()
	step := func() {
		if err := r.shipper.Step(ctx); err != nil {
			w.failf("copies: %v", err)
		}
	}
	for step(); r.shipper.Status().WaitingBytes > 0; {
		step()
	}
	step() // a full copy waits for what is not shipped
	if err := r.shipper.Tend(ctx); err != nil {
		w.failf("copies: %v", err)
	}
	step()
	if random.IntN(3) > 0 {
		return
	}
	has := dump(w.truth.SQL)
	newest, restored := w.restoreCopies(time.Time{})
	if restored != has {
		w.failf("restored as of %v, the newest copy is not what the folder has", newest)
	}
	if n := len(w.copies.known); n > 0 {
		if one := w.copies.known[random.IntN(n)]; newest.Sub(one.at) < 23*time.Hour {
			if _, restored := w.restoreCopies(one.at); restored != one.dump {
				w.failf("the copy as of %v is not what the folder had", one.at)
			}
			w.restoreSessions(one.at)
		}
	}
	w.copies.known = append(w.copies.known, copied{newest, has})
}

// restoreCopies makes a database of the copies, and returns of which time it is and what it has.
func (w *world) restoreCopies(at time.Time) (time.Time, uint64) {
	path := filepath.Join(w.t.TempDir(), databaseName)
	check(os.WriteFile(path, nil, 0o600))
	restored := must(backups.Restore(w.t.Context(), w.copies.target, path, at, func(backups.Progress) {}))
	db := must(sql.Open("sqlite", path))
	defer db.Close()
	has := dump(db)
	check(os.Remove(path))
	return restored.Time, has
}

// dump returns a hash of all rows of a database.
func dump(db *sql.DB) uint64 {
	hash := fnv.New64a()
	for _, table := range column(db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name") {
		dumpTable(db, table, hash)
	}
	return hash.Sum64()
}

func dumpTable(db *sql.DB, table string, to io.Writer) {
	rows := must(db.Query(fmt.Sprintf("SELECT * FROM %q ORDER BY 1, 2", table)))
	defer rows.Close()
	values := make([]any, len(must(rows.Columns())))
	for i := range values {
		values[i] = new(any)
	}
	for rows.Next() {
		check(rows.Scan(values...))
		for _, value := range values {
			fmt.Fprint(to, *value.(*any), "|")
		}
	}
	check(rows.Err())
}

func column(db *sql.DB, query string) (list []string) {
	rows := must(db.Query(query))
	defer rows.Close()
	for rows.Next() {
		var text string
		check(rows.Scan(&text))
		list = append(list, text)
	}
	check(rows.Err())
	return list
}
