package cli

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// readHeaderTimeout bounds the reading of a request's header.
const readHeaderTimeout = 5 * time.Second

// profiles returns the handler of profiles.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// metricsAndProbes returns a handler that serves metrics at /metrics, the probes of the service's
// handler, and nothing else.
func metricsAndProbes(metrics, service http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /healthz", service)
	mux.Handle("GET /readyz", service)
	return mux
}

// serveAside serves a handler on an address of its own until stop is called. If
// addr is empty, it does nothing.
func serveAside(ctx context.Context, addr string, handler http.Handler) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	// No write timeout: the client chooses how long a profile takes.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends when it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", addr)
}
