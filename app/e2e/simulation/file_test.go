package simulation_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/libtnb/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"stepboard/internal/stores"
	"stepboard/models"
)

// onFile is the store of worlds with a data folder. One process has it, which has no Redis and no
// queue.
//
// When it dies, the files are copied as they are at that moment: the database and its write-ahead
// log, into which nothing is written after it. The next process opens the copy. What is acknowledged
// is in it, and so nothing is ever lost: the model never expects less.
const onFile = "file"

// databaseName is the name of the database in a folder.
const databaseName = "stepboard.db"

// onlyElsewhere are rounds and events of Redis, of the queue or of other processes.
var onlyElsewhere = []string{
	"consumer", "sets", "replay", "erase-again", "near cache",
	"Redis forgets everything", "Redis is backed up", "Redis goes back in time", "a store is away for one replica",
	"the queue delivers everything again",
}

// processes returns the number of processes of the service.
func (w *world) processes() int {
	if w.store == onFile {
		return 1
	}
	return replicas
}

// allRounds returns the parts of the background work that a step may do, by how often.
func (w *world) allRounds() []string {
	if w.store != onFile {
		return rounds
	}
	here := slices.DeleteFunc(slices.Clone(rounds), func(name string) bool { return slices.Contains(onlyElsewhere, name) })
	return append(here, "write-ahead log")
}

// allEvents returns the steps that no process takes.
func (w *world) allEvents() []event {
	if w.store != onFile {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e event) bool { return slices.Contains(onlyElsewhere, e.name) })
}

// makeFolder makes the data folder and its database.
func (w *world) makeFolder() {
	w.folder = w.t.TempDir()
	st := must(stores.OpenFolder(w.t.Context(), w.folder, w.clock.Now))
	w.truth = st
	w.setFirstRow()
	check(st.Close())
	w.openTruth()
}

// openTruth opens a connection to the folder's database that passes no gate and only reads.
func (w *world) openTruth() {
	name := "file:" + filepath.Join(w.folder, databaseName) +
		"?_inttotime=1&_texttotime=1&_time_format=sqlite&_pragma=query_only(1)&_pragma=busy_timeout(5000)"
	g := must(gorm.Open(sqlite.Open(name), &gorm.Config{SkipDefaultTransaction: true, QueryFields: true, Logger: logger.Discard}))
	db := must(g.DB())
	db.SetMaxOpenConns(1)
	w.truth = &stores.Stores{Database: stores.Database{Gorm: g, SQL: db}}
}

// openFolder opens the data folder. All kinds of work pass the gate.
func (w *world) openFolder(now models.Clock, gate *gate) (*stores.Stores, error) {
	folder, err := stores.LockFolder(w.folder)
	if err != nil {
		return nil, err
	}
	folder.Ships = true
	st, err := folder.Open(w.t.Context(), now)
	if err != nil {
		return nil, err
	}
	for _, work := range st.Works() {
		useGate(work.Gorm, work.SQL, gate)
	}
	gate.free = func() bool {
		return !within("/reading.(*Shared)") && !slices.ContainsFunc(st.Works(), func(work stores.Work) bool { return work.SQL.Stats().InUse > 0 })
	}
	gate.dying = w.copyFolder
	return st, nil
}

// copyFolder copies the database, its log and what is to be shipped into another folder, which afterCrash
// turns to.
func (w *world) copyFolder() {
	w.copied = w.t.TempDir()
	check(os.CopyFS(filepath.Join(w.copied, "shipping"), os.DirFS(filepath.Join(w.folder, "shipping"))))
	for _, name := range []string{databaseName, databaseName + "-wal"} {
		content, err := os.ReadFile(filepath.Join(w.folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		check(err)
		check(os.WriteFile(filepath.Join(w.copied, name), content, 0o600))
	}
}

// letGo closes the connection of truth until it is used next: the last one to a database empties
// its log, which should be the process's own.
func (w *world) letGo() {
	if w.store == onFile {
		w.truth.SQL.SetMaxIdleConns(0)
		w.truth.SQL.SetMaxIdleConns(1)
	}
}

// afterCrash turns to the files as the process has left them, if it has died.
func (w *world) afterCrash(r *replica) {
	if w.store != onFile || !r.gate.crashed() {
		return
	}
	check(w.truth.SQL.Close())
	w.folder = w.copied
	w.openTruth()
}

// loaded notes what a process with local stores knows when it has started: the corrections, and what
// the ledger has.
func (w *world) loaded(r *replica) {
	if w.store != onFile {
		return
	}
	w.lookAtCorrections()
	w.knowsCorrections(r, len(w.model.corrections))
	for _, user := range people {
		w.model.shown[user], _ = w.model.counted(user)
	}
	w.showContests(w.contests...)
}
