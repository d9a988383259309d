package ingest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"stepboard/internal/testenv"
	"stepboard/services/boards/ingest"
)

// A message that can't be applied becomes a dead letter once, however often it is
// received. A message at the same offset of a topic that was created again is
// another one.
func TestDeadLettersOfATopicCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, testenv.Real(t))
	p := newTopic(t, 1)
	service := &ingest.DeadLetters{Store: f.deadLetters, Targets: f.targets(), Entries: f.boards, Records: testenv.Numbers{}}
	// consume applies the whole topic and returns the payloads of all dead letters.
	consume := func(group string) (payloads []string) {
		t.Helper()
		p.options.Group = group
		q := p.open()
		defer q.Close()
		stop := f.run(f.consumer(q, f.boards))
		f.drained(q)
		stop()
		for _, l := range testenv.Must(service.List(t.Context(), ingest.DeadLetterQuery{Limit: 10})) {
			payloads = append(payloads, string(l.Payload))
		}
		return payloads
	}
	p.write(&kgo.Record{Value: []byte("old")})
	for _, group := range []string{"first", "second"} { // each receives all of it
		if got := consume(group); len(got) != 1 || got[0] != "old" {
			t.Fatalf("dead letters %q, want the old one", got)
		}
	}
	admin := kadm.NewClient(p.client())
	if _, err := admin.DeleteTopic(t.Context(), kafkaTopic); err != nil {
		t.Fatal(err)
	}
	p.CreateTopic(kafkaTopic, 1, nil)
	p.write(&kgo.Record{Value: []byte("new")})
	if got := consume("third"); len(got) != 2 || got[0] != "new" || got[1] != "old" {
		t.Errorf("dead letters %q, want the old one and the new one", got)
	}
}
