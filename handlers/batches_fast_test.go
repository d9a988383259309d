package handlers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/boards/ingest"
)

// checkAgreement checks that parseBatchFast and decodeBatch return the same
// uploads for a batch that parseBatchFast accepts. It reports whether it does.
func checkAgreement(t interface {
	Errorf(format string, args ...any)
	Helper()
}, body []byte) bool {
	t.Helper()
	uploads, ok := parseBatchFast(body)
	if !ok {
		return false
	}
	want, err := decodeBatch(body)
	if err != nil {
		t.Errorf("%s: accepted, but the decoder returns %v", body, err)
		return true
	}
	if diff := cmp.Diff(want.uploads, uploads); diff != "" || len(want.rejected) > 0 {
		t.Errorf("%s: rejected %v, (-decoder +fast):\n%s", body, want.rejected, diff)
	}
	return true
}

func TestParseBatchFastAcceptsCommonForms(t *testing.T) {
	t.Parallel()
	want := []ingest.Upload{{User: "1", Date: 20412, Score: 0}, {User: "auth0|5f", Date: 20413, Score: 999_999_999_999_999_999}}
	for name, body := range map[string]string{
		"compact":   `{"scores":[{"user_id":"1","date":"2025-11-20","score":0},{"user_id":"auth0|5f","date":"2025-11-21","score":999999999999999999}]}`,
		"spaced":    `{"scores": [{"user_id": "1", "date": "2025-11-20", "score": 0}, {"user_id": "auth0|5f", "date": "2025-11-21", "score": 999999999999999999}]}`,
		"indented":  "\r\n{\t\"scores\" :\n[ { \"user_id\" : \"1\" ,\n\"date\" : \"2025-11-20\" ,\n\"score\" : 0\n}\n,\n{\"user_id\":\"auth0|5f\",\"date\":\"2025-11-21\",\"score\":999999999999999999\n} ]\n}\n",
		"reordered": `{"scores":[{"score":0,"user_id":"1","date":"2025-11-20"},{"date":"2025-11-21","score":999999999999999999,"user_id":"auth0|5f"}]}`,
	} {
		got, ok := parseBatchFast([]byte(body))
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: accepted: %v\n%s", name, ok, diff)
		}
		checkAgreement(t, []byte(body))
	}
}

func TestParseBatchFastRefusesOtherForms(t *testing.T) {
	t.Parallel()
	const item = `{"user_id":"1","date":"2025-11-20","score":5}`
	for _, body := range []string{
		``, `{`, `null`, `[]`, `{}`, `{"scores":null}`, `{"scores":[]}`, `{"scores":[` + item, `{"scores":[` + item + `]`,
		`{"scores":[` + item + `,]}`, `{"scores":[,` + item + `]}`, `{"scores":[` + item + item + `]}`,
		`{"scores":[` + item + `]}x`, `{"scores":[` + item + `]}{}`, `{"scores":[` + item + `],"a":1}`,
		`{"Scores":[` + item + `]}`, `{"scores":[` + strings.Repeat(item+",", maxBatch) + item + `]}`,
	} {
		if _, ok := parseBatchFast([]byte(body)); ok {
			t.Errorf("%.80s is accepted", body)
		}
	}
	for _, odd := range []string{
		`null`, `1`, `{}`, `[]`, `"x"`,
		`{"user_id":"1","date":"2025-11-20"}`, `{"user_id":"1","score":5}`, `{"date":"2025-11-20","score":5}`,
		`{"user_id":"1","date":"2025-11-20","score":5,}`, `{,"user_id":"1","date":"2025-11-20","score":5}`,
		`{"user_id":"1","date":"2025-11-20","score":5,"x":1}`, `{"user_id":"1","date":"2025-11-20","steps":5}`,
		`{"user_id":"1","user_id":"1","score":5}`, `{"user_id":"1","date":"2025-11-20","score":5,"score":5}`,
		`{"user_id":"0","user_id":"1","date":"2025-11-20"}`,
		`{"user_id":1,"date":"2025-11-20","score":5}`, `{"user_id":"\u0031","date":"2025-11-20","score":5}`,
		`{"user_id":"a\/b","date":"2025-11-20","score":5}`, `{"user_id":"a\\b","date":"2025-11-20","score":5}`,
		`{"user_id":"1","date":"2025-11-2\u0030","score":5}`, `{"user\u005fid":"1","date":"2025-11-20","score":5}`,
		`{"user_id":"1\"","date":"2025-11-20","score":5}`, `{"user_id":"","date":"2025-11-20","score":5}`,
		`{"user_id":".","date":"2025-11-20","score":5}`, `{"user_id":"..","date":"2025-11-20","score":5}`,
		`{"user_id":"a b","date":"2025-11-20","score":5}`, `{"user_id":" a","date":"2025-11-20","score":5}`,
		"{\"user_id\":\"a\x7f\",\"date\":\"2025-11-20\",\"score\":5}", "{\"user_id\":\"a\tb\",\"date\":\"2025-11-20\",\"score\":5}",
		`{"user_id":"é","date":"2025-11-20","score":5}`, `{"user_id":"` + strings.Repeat("x", 129) + `","date":"2025-11-20","score":5}`,
		`{user_id:"1","date":"2025-11-20","score":5}`,
		`{"user_id":"1","date":"2025-11-31","score":5}`, `{"user_id":"1","date":"","score":5}`, `{"user_id":"1","date":null,"score":5}`,
		`{"user_id":"1","date":"2025-11-20","score":05}`, `{"user_id":"1","date":"2025-11-20","score":-5}`,
		`{"user_id":"1","date":"2025-11-20","score":5.0}`, `{"user_id":"1","date":"2025-11-20","score":5e1}`,
		`{"user_id":"1","date":"2025-11-20","score":"5"}`, `{"user_id":"1","date":"2025-11-20","score":null}`,
		`{"user_id":"1","date":"2025-11-20","score":1000000000000000000}`, `{"user_id":"1","date":"2025-11-20","score":}`,
		"{\"user_id\":\"1\",\"date\":\"2025-11-20\",\"score\":5,\"\xff\":1}", "{\"user_id\":\"1\xff\",\"date\":\"2025-11-20\",\"score\":5}",
		"{\"user_id\":\"1\",\v\"date\":\"2025-11-20\",\"score\":5}", "{\"user_id\":\"1\",\"date\":\"2025-11-20\",\"score\":5\x00}",
	} {
		if _, ok := parseBatchFast([]byte(`{"scores":[` + item + `,` + odd + `]}`)); ok {
			t.Errorf("%s is accepted", odd)
		}
	}
}

// A batch with one or two bytes changed, removed or inserted is parsed as the
// decoder parses it, or left to the decoder.
func TestParseBatchFastAgreesWithTheDecoder(t *testing.T) {
	t.Parallel()
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		body := drawBatch(t)
		for range rapid.IntRange(0, 2).Draw(t, "mutations") {
			body = mutate(t, body)
		}
		if checkAgreement(t, body) {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no batch was accepted")
	}
}

// parseBatch returns the ids that the batch names, however their characters are
// written. parseBatchFast leaves escaped characters to the decoder.
func TestParseBatchReadsEveryUserID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.SliceOfN(rapid.Custom(drawUser), 1, 5).Draw(t, "users")
		items := make([]string, len(users))
		spare := rapid.Bool().Draw(t, "spare escapes")
		for i, user := range users {
			items[i] = `{"user_id":` + quoted(t, user, spare) + `,"date":"2025-11-20","score":5}`
		}
		body := `{"scores":[` + strings.Join(items, ",") + `]}`
		if _, ok := parseBatchFast([]byte(body)); ok == strings.Contains(body, `\`) {
			t.Errorf("%s: parseBatchFast accepts it: %v", body, ok)
		}
		batch, err := parseBatch([]byte(body))
		if err != nil || len(batch.rejected) > 0 {
			t.Fatalf("%s: %v, %+v", body, err, batch)
		}
		got := make([]models.UserID, len(batch.uploads))
		for i, upload := range batch.uploads {
			got[i] = upload.User
		}
		if diff := cmp.Diff(users, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	})
}

// drawUser draws a valid user id.
func drawUser(t *rapid.T) models.UserID {
	printable := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.ByteRange('!', '~'), 1, models.MaxUserID).Draw(t, "bytes"))
	}).Filter(func(s string) bool {
		_, err := models.ParseUserID(s)
		return err == nil // no path segment is "." or ".."
	})
	known := rapid.SampledFrom([]string{"1001", "auth0|5f7c8ec7c33c6c004bbafe82", "c56a4180-65aa-42ec-a945-5fd21dec0538", "...", strings.Repeat("x", models.MaxUserID)})
	return models.UserID(rapid.OneOf(known, printable).Draw(t, "user"))
}

// quoted returns an id as a JSON string with the escapes that it needs; with spare,
// some other characters are escaped, too.
func quoted(t *rapid.T, id models.UserID, spare bool) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case spare && rapid.Bool().Draw(t, "escaped"):
			fmt.Fprintf(&b, `\u%04x`, c)
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// drawBatch draws a valid batch in one of many forms.
func drawBatch(t *rapid.T) []byte {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t"})
	spare := rapid.IntRange(0, 3).Draw(t, "spare escapes") == 3
	small := rapid.Int64Range(0, 100_000)
	items := make([]string, rapid.IntRange(1, 3).Draw(t, "items"))
	for i := range items {
		user := drawUser(t)
		date := models.Date(rapid.IntRange(20_400, 20_420).Draw(t, "date"))
		score := rapid.OneOf(small, small, small, rapid.Int64()).Draw(t, "score")
		fields := rapid.Permutation([]string{
			`"user_id":` + space.Draw(t, "space") + quoted(t, user, spare),
			`"date":` + space.Draw(t, "space") + `"` + date.String() + `"`,
			`"score":` + space.Draw(t, "space") + strconv.FormatInt(score, 10),
		}).Draw(t, "fields")
		items[i] = "{" + strings.Join(fields, ","+space.Draw(t, "space")) + "}"
	}
	return []byte(`{"scores":[` + strings.Join(items, ","+space.Draw(t, "space")) + "]}" + space.Draw(t, "space"))
}

func mutate(t *rapid.T, body []byte) []byte {
	at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
	piece := rapid.SampledFrom([]string{"", " ", `"`, `\`, `\\`, `\"`, `\u0031`, ",", ":", "{", "}", "[", "]", "0", "1", "9", "-", ".", "e", "x", "\x00", "\xff", "é", `"score":1,`, `,"x":2`}).Draw(t, "piece")
	removed := rapid.IntRange(0, 1).Draw(t, "removed")
	return []byte(string(body[:at]) + piece + string(body[at+removed:]))
}
