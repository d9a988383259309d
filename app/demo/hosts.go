package demo

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"stepboard/handlers"
)

// onlyHosts returns a handler that refuses requests whose Host is neither an address
// nor localhost nor the host of addr, which is that of --addr. Otherwise a foreign
// page could resolve its own name to this machine and read the demo's tokens, because
// the browser takes both for one site (DNS rebinding).
func onlyHosts(next http.Handler, addr string) http.Handler {
	own, _, _ := net.SplitHostPort(addr) // "" if there is none
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !knownHost(r.Host, own) {
			p := handlers.Refuse(http.StatusMisdirectedRequest, "call the demo at localhost, at an address, or at the host of --addr")
			w.Header().Set("Content-Type", p.ContentType(""))
			w.Header().Set("X-Request-Id", p.RequestID)
			w.WriteHeader(p.Status)
			_ = json.NewEncoder(w).Encode(p) // the client may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knownHost reports whether a Host header may name this machine; own is the host
// of --addr.
func knownHost(host, own string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || host != "" && strings.EqualFold(host, own)
}
