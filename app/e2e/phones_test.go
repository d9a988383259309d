package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// address is an upload address, as the answer that makes it has it.
type address struct {
	ID, Key, Path string
}

// addAddress makes an upload address of a user.
func (s *server) addAddress(user models.UserID) (made address) {
	s.t.Helper()
	a := s.as(user, "POST", "/v1/me/upload-addresses", `{"name":"My phone","board":"steps"}`)
	s.want(a, http.StatusCreated, nil)
	if err := json.Unmarshal(a.body, &made); err != nil {
		s.t.Fatal(err)
	}
	return made
}

// An app sends steps to an address, and its user has them at once, in each form. No other call takes
// the key, and it stands nowhere: in no log, metric, trace, table, key or export.
func TestPhones(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	env := testenv.Real(t)
	s := newTracedServer(t, env, config.Traces{Endpoint: c.url, Ratio: 1})
	made := s.addAddress("ann")
	for i, body := range []string{
		`{"date":"2026-11-20","score":1}`,
		`{"data":{"metrics":[{"name":"step_count","data":[{"date":"2026-11-20 00:00:00 +0800","qty":2}]}]}}`,
		`{"app_version":"1","steps":[{"count":3,"start_time":"2026-11-19T16:00:00Z","end_time":"2026-11-20T12:00:00Z"}]}`,
		`[{"type":"step","value":"4","date":"2026-11-20"}]`,
		`steps=5&date=2026-11-20`,
	} {
		var took struct {
			Accepted []struct {
				Date  string `json:"date"`
				Score int64  `json:"score"`
				Held  bool   `json:"held"`
			} `json:"accepted"`
			Rejected []any `json:"rejected"`
		}
		path, token := made.Path, ""
		if i%2 == 1 {
			path, token = "/v1/in", made.Key
		}
		s.want(s.call(token, "POST", path, body), http.StatusOK, &took)
		var me struct{ Score int64 }
		s.read(s.as("ann", "GET", "/v1/boards/steps/me", nil), http.StatusOK, &me)
		if len(took.Accepted) != 1 || took.Accepted[0].Score != int64(i+1) || me.Score != int64(i+1) {
			t.Errorf("%s: %+v, and me has %d", body, took, me.Score)
		}
	}
	s.refuse(s.call("", "POST", made.Path, `{"hello":1}`), http.StatusUnprocessableEntity, models.CodeNotRecognised)
	s.refuse(s.call("", "GET", made.Path, nil), http.StatusMethodNotAllowed, models.CodeMethodNotAllowed)
	a := &authorization{server: s.server}
	p := a.newPeople()
	for operation, entry := range matrix() {
		method, path := a.target(operation, entry, p)
		if entry.by == phone || open(entry.by) {
			continue
		}
		s.refuse(s.call(made.Key, method, path, nil), http.StatusUnauthorized, models.CodeUnauthenticated)
	}
	metrics := s.call("", "GET", "/metrics", nil).body
	export := append(s.as("ann", "GET", "/v1/me/export", nil).body, s.admin("GET", "/v1/admin/users/ann/export", nil).body...)
	if !bytes.Contains(export, []byte(`"name":"My phone"`)) || !bytes.Contains(metrics, []byte(`stepboard_phone_uploads_total{form="fields",result="accepted"} 1`)) {
		t.Errorf("the export or the metrics lack the address: %s", export)
	}
	tables := s.everyValue()
	for key, content := range s.keys() {
		tables += key + content
	}
	listed := s.as("ann", "GET", "/v1/me/upload-addresses", nil).body
	s.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bytes) == 0 || !strings.Contains(tables, "My phone") {
		t.Error("there are no traces, or no tables")
	}
	for where, text := range map[string]string{
		"log": s.log.String(), "metrics": string(metrics), "traces": string(c.bytes), "export": string(export), "databases": tables, "list": string(listed),
	} {
		if strings.Contains(text, made.Key) || strings.Contains(text, strings.TrimPrefix(made.Key, "sb_")) {
			t.Errorf("the key stands in the %s", where)
		}
	}
}

// Somebody signs in and says where the device is. An address that it makes has that zone, as the export has.
func TestTimeZoneOfASession(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Real(t))
	s.want(s.as("ann", "PUT", "/v1/me", newProfile), http.StatusOK, nil)
	code := testenv.Must(s.app.Sessions.MakeCode(t.Context(), "ann", time.Hour)).Text
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/session", strings.NewReader(`{"code":"`+code+`","time_zone":"Europe/Berlin"}`))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.app.Handler.ServeHTTP(w, r)
	var opened struct{ Token string }
	if err := json.Unmarshal(w.Body.Bytes(), &opened); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	const berlin = `"time_zone":"Europe/Berlin"`
	made := s.call(opened.Token, "POST", "/v1/me/upload-addresses", `{"name":"My phone","board":"steps"}`)
	export := s.call(opened.Token, "GET", "/v1/me/export", nil)
	if made.status != http.StatusCreated || !bytes.Contains(made.body, []byte(berlin)) || bytes.Count(export.body, []byte(berlin)) != 2 {
		t.Errorf("the address is %s, and the export %s", made.body, export.body)
	}
}

// everyValue returns the values of all tables as text.
func (s *server) everyValue() string {
	s.t.Helper()
	var all strings.Builder
	for _, table := range s.tables() {
		var rows []map[string]any
		if err := s.env.Gorm.Raw("SELECT * FROM " + table).Scan(&rows).Error; err != nil {
			s.t.Fatal(err)
		}
		for _, row := range rows {
			for _, value := range row {
				all.WriteString(textOf(value) + "\n")
			}
		}
	}
	return all.String()
}

// An address that was revoked is refused at once by every process, and that of an erased user, too.
func TestRevokedAddresses(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s, other := newServer(t, env), newServer(t, env)
	const body = `{"date":"2026-11-20","score":1}`
	own, lost, erased := s.addAddress("ann"), s.addAddress("ann"), s.addAddress("ben")
	for _, made := range []address{own, lost, erased} {
		s.want(other.call("", "POST", made.Path, body), http.StatusOK, nil)
	}
	s.want(s.as("ann", "DELETE", "/v1/me/upload-addresses/"+own.ID, nil), http.StatusNoContent, nil)
	s.want(s.admin("DELETE", "/v1/admin/users/ann/upload-addresses/"+lost.ID, nil), http.StatusNoContent, nil)
	s.want(s.as("ben", "DELETE", "/v1/me", `{"confirm":"erase"}`), http.StatusAccepted, nil)
	for _, made := range []address{own, lost, erased} {
		for _, process := range []*server{s, other} {
			process.refuse(process.call("", "POST", made.Path, body), http.StatusUnauthorized, models.CodeAddressUnknown)
		}
	}
}
