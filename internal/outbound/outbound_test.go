package outbound

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address         string
		public, private bool // permitted without and with private_network
	}{
		{"93.184.216.34:443", true, true},
		{"[2606:2800:220:1::1]:443", true, true},
		{"127.0.0.1:80", false, true},
		{"[::1]:80", false, true},
		{"10.1.2.3:80", false, true},
		{"172.16.0.1:80", false, true},
		{"192.168.1.1:80", false, true},
		{"[fd00::1]:80", false, true},
		{"100.64.1.1:80", false, true},
		{"[::ffff:10.0.0.1]:80", false, true},
		{"[64:ff9b::a00:1]:80", false, true},
		{"192.0.2.1:80", false, true},
		{"198.51.100.1:80", false, true},
		{"203.0.113.1:80", false, true},
		{"192.88.99.1:80", false, true},
		{"255.255.255.255:80", false, true},
		{"[2001::1]:80", false, true},
		{"[2001:db8::1]:80", false, true},
		{"[2002:a00:1::]:80", false, true},
		{"[100::1]:80", false, true},
		{"169.254.169.254:80", false, false},
		{"[fe80::1]:80", false, false},
		{"[::ffff:169.254.169.254]:80", false, false},
		{"0.0.0.0:80", false, false},
		{"224.0.0.1:80", false, false},
		{"nonsense", false, false},
	}
	for _, tt := range tests {
		if got := checkAddress(tt.address, false) == nil; got != tt.public {
			t.Errorf("%s: permitted without private_network: %v", tt.address, got)
		}
		if got := checkAddress(tt.address, true) == nil; got != tt.private {
			t.Errorf("%s: permitted with private_network: %v", tt.address, got)
		}
	}
}

// No client follows a redirect, and an answer without an end is cut off.
func TestClient(t *testing.T) {
	t.Parallel()
	followed := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, other.URL, http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("a", 1001))
	}))
	defer server.Close()
	for _, o := range []Options{{MaxAnswer: 1000}, {Strangers: true, Private: true, Idle: 1, MaxAnswer: 1000}} {
		client := NewClient(o)
		get := func(path string) *http.Response {
			answer, err := client.Get(server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		answer := get("/away?secret")
		if answer.Body.Close(); answer.StatusCode != http.StatusFound || followed {
			t.Errorf("%+v: status %d, followed: %v", o, answer.StatusCode, followed)
		}
		answer = get("")
		var large *http.MaxBytesError
		if text, err := io.ReadAll(answer.Body); !errors.As(err, &large) || len(text) != 1000 {
			t.Errorf("%+v: %d bytes, %v", o, len(text), err)
		}
		answer.Body.Close()
		client.CloseIdleConnections()
	}
	answer, err := NewClient(Options{Strangers: true}).Get(server.URL)
	if err == nil {
		answer.Body.Close()
	}
	if !errors.Is(err, ErrPrivate) {
		t.Errorf("an address of this machine: %v", err)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]bool{ // permitted without and with private networks
		"https://push.example.com/1": {true, true}, "https://push.example.com:443/": {true, true}, "https://93.184.216.34/": {true, true},
		"http://push.example.com/": {false, true}, "https://push.example.com:8443/": {false, true}, "https://localhost/": {false, true},
		"https://printer.local/": {false, true}, "https://a.localhost./": {false, true}, "https://[::1]/": {false, true}, "https://10.0.0.1/": {false, true},
		"https://nas/": {false, true}, "ftp://example.com/": {false, false}, "https://a@example.com/": {false, false}, "https:///x": {false, false},
		"https://example.com/#a": {false, false}, "": {false, false},
	} {
		if got := [2]bool{CheckURL(address, false) == nil, CheckURL(address, true) == nil}; got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
