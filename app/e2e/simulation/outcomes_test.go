package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"stepboard/config"
	"stepboard/models"
)

// webhookSecret signs the messages to the receiver.
const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver is the app's backend, which hears of outcomes. Safe for concurrent use.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	fail   receiverFault
	// messages are the bodies that were received, by message id.
	messages map[string]string
}

// receiverFault is a way in which a receiver treats messages.
type receiverFault int

const (
	accepts receiverFault = iota
	// refuses answers 500 and does not take the message.
	refuses
	// hangsUp takes the message and breaks the connection.
	hangsUp
)

func newReceiver() *receiver {
	r := &receiver{messages: make(map[string]string)}
	r.server = httptest.NewServer(http.HandlerFunc(r.receive))
	return r
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || r.fail == refuses {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	r.messages[request.Header.Get("webhook-id")] = string(body)
	if r.fail == hangsUp {
		panic(http.ErrAbortHandler)
	}
}

// set sets what the receiver does from now on.
func (r *receiver) set(fail receiverFault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = fail
}

// target returns the settings of the receiver.
func (r *receiver) target() config.Webhook {
	return config.Webhook{URL: r.server.URL, Secrets: []string{webhookSecret}, Events: []string{}, PrivateNetwork: true}
}

// deliver lets a replica send what is due, to a receiver that may fail.
func (w *world) deliver(ctx context.Context, r *replica) error {
	defer w.receiver.set(accepts)
	w.receiver.set([]receiverFault{accepts, accepts, refuses, hangsUp}[w.random.IntN(4)])
	return w.round(ctx, r, "webhooks")
}

// lookAtRequests notes the friend requests that their recipients are shown, and expects an
// outcome for each that is new.
func (w *world) lookAtRequests() {
	var found []string
	check(w.truth.Gorm.Raw(`SELECT b.external_id || ' ' || a.external_id FROM friend_requests q
		JOIN users a ON a.user_id = q.user_id JOIN users b ON b.user_id = q.other_id
		WHERE incoming AND declined_at IS NULL`).Scan(&found).Error)
	now := make(map[string]bool)
	for _, pair := range found {
		now[pair] = true
		if !w.model.requests[pair] {
			w.model.outcomes["friend.requested "+pair]++
		}
	}
	w.model.requests = now
}

// lookAtLikes notes the likes that were ever given, and expects an outcome for each that is new
// and of somebody who is shown to the user whose score it is.
func (w *world) lookAtLikes() {
	var found []struct {
		From, To models.UserID
		Day      models.Date
	}
	check(w.truth.Gorm.Raw(`SELECT f.external_id AS "from", t.external_id AS "to", day FROM likes l
		JOIN users f ON f.user_id = l.liked_by JOIN users t ON t.user_id = l.user_id`).Scan(&found).Error)
	for _, like := range found {
		name := fmt.Sprintf("%s %s %s", like.From, like.To, like.Day)
		if !w.model.likes[name] && !w.model.notShown(like.To, like.From) {
			w.model.outcomes["like.given "+name]++
		}
		w.model.likes[name] = true
	}
}

// dropHidden notes that likes are not sent whose givers are not shown to the user by now.
func (w *world) dropHidden() {
	m := w.model
	var hidden []string
	for name := range m.outcomes {
		words := strings.Fields(name)
		if words[0] == "like.given" && m.notShown(models.UserID(words[2]), models.UserID(words[1])) {
			hidden = append(hidden, name)
		}
	}
	if len(hidden) == 0 {
		return
	}
	got, _ := w.received()
	for _, name := range hidden {
		m.dropped[name] = max(m.dropped[name], m.outcomes[name]-got[name])
	}
}

// final is the data of a board.final.
type final struct {
	Board    string  `json:"board"`
	Date     *string `json:"date"`
	Revision int     `json:"revision"`
	Total    int64   `json:"total"`
	ScoreSum int64   `json:"score_sum"`
	Top      []line  `json:"top"`
}

// name returns the board and, of a daily board, the day.
func (f final) name() string {
	if f.Date == nil {
		return f.Board
	}
	return f.Board + " " + *f.Date
}

// received returns how often each outcome was received, without results, and the results by
// name and revision.
func (w *world) received() (outcomes map[string]int, finals map[string]map[int]final) {
	w.receiver.mu.Lock()
	defer w.receiver.mu.Unlock()
	outcomes, finals = make(map[string]int), make(map[string]map[int]final)
	for _, body := range w.receiver.messages {
		message := decode[struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}](w, []byte(body))
		if message.Type == string(models.OutcomeBoardFinal) {
			f := decode[final](w, message.Data)
			if finals[f.name()] == nil {
				finals[f.name()] = make(map[int]final)
			}
			if _, twice := finals[f.name()][f.Revision]; twice {
				w.failf("revision %d of %s was sent as two messages", f.Revision, f.name())
			}
			finals[f.name()][f.Revision] = f
			continue
		}
		if message.Type == string(models.OutcomeRankPassed) {
			continue // at most once: checkPassed compares them
		}
		data := decode[struct {
			From, To    models.UserID
			Date        string
			Competition models.CompetitionID `json:"competition_id"`
			Revision    int
		}](w, message.Data)
		name := fmt.Sprintf("%s %s %s", message.Type, data.From, data.To)
		if data.Competition != "" {
			name = fmt.Sprintf("%s %s %d", message.Type, data.Competition, data.Revision)
		}
		if data.Date != "" {
			name += " " + data.Date
		}
		outcomes[name]++
	}
	return outcomes, finals
}

// drainOutcomes lets a replica deliver until nothing is left, and compares what was received
// with what has happened.
func (w *world) drainOutcomes() {
	r := w.replicas[0]
	for range 20 {
		var waiting int64
		check(w.truth.Gorm.Raw(`SELECT count(*) FROM webhook_deliveries WHERE state = ?`, models.DeliveryWaiting).Scan(&waiting).Error)
		if waiting == 0 {
			break
		}
		w.advance(time.Minute)
		w.take(r, action{name: "deliver", quiet: true, do: func(w *world, ctx context.Context, r *replica) {
			if err := w.round(ctx, r, "webhooks"); err != nil {
				w.failf("round webhooks fails: %v", err)
			}
		}}, plan{})
	}
	got, _ := w.received()
	for _, name := range slices.Sorted(maps.Keys(union(got, w.model.outcomes))) {
		n, dropped := w.model.outcomes[name], w.model.dropped[name]
		if got[name] > n && !w.everErased(name) || got[name] < n-dropped {
			w.failf("%q has happened %d times, was received %d times, and %d may be dropped", name, n, got[name], dropped)
		}
	}
}

// compareFinals compares the results that were received with the rankings of archived days.
func (w *world) compareFinals(ctx context.Context, r *replica) {
	_, finals := w.received()
	viewer := w.person()
	for _, name := range slices.Sorted(maps.Keys(finals)) {
		revisions := finals[name]
		last, ok := revisions[len(revisions)]
		if !ok {
			w.failf("of %s these revisions were received: %v", name, slices.Sorted(maps.Keys(revisions)))
		}
		path := "/v1/boards/" + last.Board + "/top?"
		if last.Date != nil {
			path = "/v1/boards/steps/top?date=" + *last.Date
		}
		got, ok := w.list(ctx, r, viewer, path, 200)
		if !ok {
			continue
		}
		sum := int64(0)
		for i, entry := range got.Entries {
			sum += *entry.Score
			if i >= len(last.Top) || !equal(entry.value(), last.Top[i].value()) {
				w.failf("place %d of %s has %v, which the result of revision %d does not have", i+1, name, entry.value(), last.Revision)
			}
		}
		if last.Total != got.Total || last.ScoreSum != sum {
			w.failf("%s has %d scores, %d together; by the result of revision %d %d, %d together",
				name, got.Total, sum, last.Revision, last.Total, last.ScoreSum)
		}
	}
	for _, day := range slices.Sorted(maps.Keys(w.model.archived)) {
		name := w.named(day)
		if w.contestOf(day) == nil {
			name = "steps " + name
		}
		if finals[name] == nil {
			w.failf("no result of %s was received", name)
		}
	}
}
