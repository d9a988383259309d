package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stepboard/internal/testenv"
)

// after sends messages to a receiver and returns the list that it then serves.
func (r *receiver) after(t *testing.T, requests ...*http.Request) (list []received, statuses []int) {
	t.Helper()
	engine := gin.New()
	engine.POST(receiverPath, r.receive)
	engine.GET(receiverPath, r.list)
	for _, request := range requests {
		answer := httptest.NewRecorder()
		engine.ServeHTTP(answer, request)
		statuses = append(statuses, answer.Code)
	}
	answer := httptest.NewRecorder()
	engine.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, receiverPath, http.NoBody))
	var body struct{ Messages []received }
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	return body.Messages, statuses
}

// The receiver keeps what is signed, each message once, and the last ones of each type.
func TestDemoReceiver(t *testing.T) {
	t.Parallel()
	r, target, err := newReceiver("http://127.0.0.1:1", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	signer := testenv.Must(standardwebhooks.NewWebhook(target.Secrets[0]))
	message := func(id, body string) *http.Request {
		now := time.Now()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, receiverPath, strings.NewReader(body))
		request.Header.Set(standardwebhooks.HeaderWebhookID, id)
		request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		request.Header.Set(standardwebhooks.HeaderWebhookSignature, testenv.Must(signer.Sign(id, now, []byte(body))))
		return request
	}
	forged := message("forged", `{"type":"a"}`)
	forged.Body = http.NoBody
	long := `{"type":"b","data":"` + strings.Repeat("é", maxMessage/4) + `"}`
	list, statuses := r.after(t, message("1", `{"type":"a"}`), message("1", `{"type":"a"}`), forged,
		message("2", long), message("3", strings.Repeat(" ", maxMessage+1)), message("4", "no JSON"))
	if want := "[204 204 401 204 413 400]"; fmt.Sprint(statuses) != want {
		t.Errorf("messages are answered %v, want %s", statuses, want)
	}
	if len(list) != 2 || list[0].ID != "2" || list[1].ID != "1" || list[1].Type != "a" || list[1].Body != `{"type":"a"}` {
		t.Fatalf("%+v are kept", list)
	}
	if list[0].More != len(long)-len(list[0].Body) || list[1].More != 0 || !strings.HasPrefix(long, list[0].Body) || len(list[0].Body) < shownBytes-1 {
		t.Errorf("a long message is shown as %+v", list[0])
	}
	var many []*http.Request
	for i := range keptMessages + 5 {
		many = append(many, message("c"+strconv.Itoa(i), `{"type":"c"}`))
	}
	list, _ = r.after(t, many...)
	if len(list) != keptMessages+2 || list[0].ID != "c"+strconv.Itoa(keptMessages+4) || list[len(list)-1].ID != "1" {
		t.Errorf("%d messages are kept: %+v", len(list), list)
	}
}

// Digests are made soon after the demo has begun, in the zone of its board, also around
// midnight.
func TestDemoDigestTime(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{"03:59": "1 12 * * *", "15:57": "59 23 * * *", "15:59": "1 0 * * *"} {
		now := testenv.Must(time.Parse(time.RFC3339, "2026-11-20T"+at+":00Z"))
		if got := testenv.Must(digestCron(now, "Asia/Shanghai")); got != want {
			t.Errorf("a demo that begins at %s has digests at %s, want %s", at, got, want)
		}
	}
}
