package simulation_test

import (
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// key is a key of the boards' Redis and when it expires.
type key struct {
	kind    string
	text    string
	members []string
	hash    map[string]string
	scores  map[string]float64
	entries []miniredis.StreamEntry
	expires time.Time // zero for never
}

// backUp remembers what the boards' Redis has.
func (w *world) backUp() {
	w.backup = make(map[string]key)
	for _, name := range w.boards.Keys() {
		k := key{kind: w.boards.Type(name)}
		switch k.kind {
		case "string":
			k.text = must(w.boards.Get(name))
		case "set":
			k.members = must(w.boards.Members(name))
		case "zset":
			k.scores = must(w.boards.SortedSet(name))
		case "hash":
			k.hash = make(map[string]string)
			for _, field := range must(w.boards.HKeys(name)) {
				k.hash[field] = w.boards.HGet(name, field)
			}
		case "stream":
			k.entries = slices.Clone(must(w.boards.Stream(name)))
		default:
			panic("no backup of a " + k.kind)
		}
		if ttl := w.boards.TTL(name); ttl > 0 {
			k.expires = w.clock.Now().Add(ttl)
		}
		w.backup[name] = k
	}
}

// goBack restores the backup of the boards' Redis, if there is one.
func (w *world) goBack() {
	if w.backup == nil {
		return
	}
	w.boards.FlushAll()
	w.newServer()
	for name, k := range w.backup {
		if !k.expires.IsZero() && !w.clock.Now().Before(k.expires) {
			continue
		}
		switch k.kind {
		case "string":
			check(w.boards.Set(name, k.text))
		case "set":
			must(w.boards.SAdd(name, k.members...))
		case "zset":
			for member, score := range k.scores {
				must(w.boards.ZAdd(name, score, member))
			}
		case "hash":
			for field, text := range k.hash {
				w.boards.HSet(name, field, text)
			}
		case "stream":
			for _, entry := range k.entries {
				must(w.boards.XAdd(name, entry.ID, entry.Values))
			}
		}
		if !k.expires.IsZero() {
			w.boards.SetTTL(name, k.expires.Sub(w.clock.Now()))
		}
	}
	w.model.forgotten()
	w.model.oldSets, w.restored = true, true
}
