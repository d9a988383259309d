package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"stepboard/internal/pause"
)

// rotate returns a function that returns the requests in turn, without end.
func rotate(requests [][]byte) func() []byte {
	var next atomic.Int64
	return func() []byte { return requests[int(next.Add(1))%len(requests)] }
}

// load sends requests over a number of connections for the duration d and returns
// the number of responses a second. Each connection sends its next request when it
// has the response of the last. Requests are encoded before, and as little as
// possible of a response is parsed, so that the client uses little CPU.
func load(ctx context.Context, addr string, connections int, d time.Duration, next func() []byte) float64 {
	return rateOf(ctx, connections, d, func(ctx context.Context, done func()) error {
		return sendRequests(ctx, addr, next, done)
	})
}

// rateOf runs work in a number of goroutines, until its context ends after the duration d, and
// returns how often they call done in a second.
func rateOf(ctx context.Context, goroutines int, d time.Duration, work func(ctx context.Context, done func()) error) float64 {
	var (
		done    atomic.Int64
		working errgroup.Group
	)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	start := time.Now()
	for range goroutines {
		working.Go(func() error { return work(ctx, func() { done.Add(1) }) })
	}
	check(working.Wait())
	return float64(done.Load()) / time.Since(start).Seconds()
}

// latencies sends requests at a constant rate, over a number of connections, while work runs, and returns
// their latencies, ascending. A latency counts from the time at which the request was due, so that it
// includes waiting for a slow response before. The first request is due once each connection has had a
// response, which is not counted: the requests that wait for connections would otherwise be more than the
// slowest 1 %.
func latencies(
	ctx context.Context, p *process, connections, rate int, requests [][]byte, work func(context.Context),
) (all []time.Duration) {
	conns := make([]*connection, connections)
	for i := range conns {
		conns[i] = must(dial(ctx, p.addr))
		check(conns[i].roundTrip(requests[0]))
	}
	var (
		next    atomic.Int64
		sending errgroup.Group
		mu      sync.Mutex
		start   = time.Now()
	)
	during, stop := context.WithCancel(ctx)
	for _, conn := range conns {
		sending.Go(func() error {
			defer conn.Close()
			for {
				i := next.Add(1)
				due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
				if pause.For(during, time.Until(due)) != nil {
					return nil
				}
				if err := conn.roundTrip(requests[int(i)%len(requests)]); err != nil {
					return err
				}
				mu.Lock()
				all = append(all, time.Since(due))
				mu.Unlock()
			}
		})
	}
	err := caught(func() { work(ctx) })
	stop()
	check(errors.Join(err, sending.Wait()))
	slices.Sort(all)
	return all
}

// p99 returns the 99th percentile of latencies.
func p99(ascending []time.Duration) time.Duration { return ascending[len(ascending)*99/100] }

// wait is work that takes the time of a measurement, and does nothing.
func (e *environment) wait(ctx context.Context) { check(pause.For(ctx, e.seconds)) }

// sendRequests sends requests over one connection and reads the responses, until ctx ends. It calls
// done after each of them.
func sendRequests(ctx context.Context, addr string, next func() []byte, done func()) (err error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for ctx.Err() == nil {
		if err := conn.roundTrip(next()); err != nil {
			return err
		}
		done()
	}
	return nil
}

// connection is a connection to a server, for one request after another.
type connection struct {
	net.Conn

	in *bufio.Reader
}

func dial(ctx context.Context, addr string) (*connection, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &connection{conn, bufio.NewReaderSize(conn, 32<<10)}, nil
}

// roundTrip sends a request and reads its response.
func (c *connection) roundTrip(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	return readResponse(c.in)
}

var contentLength = []byte("Content-Length: ")

// readResponse reads one response of status 200 or 202, with a length or in chunks.
func readResponse(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 20")) {
		rest, _ := in.Peek(in.Buffered())
		return fmt.Errorf("response %s%s", status, rest)
	}
	length := -1
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if bytes.HasPrefix(line, contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(in)); err != nil {
			return err
		}
		length = len("\r\n") // behind the last chunk
	}
	_, err = in.Discard(length)
	return err
}

// httpRequest returns an encoded request.
func httpRequest(method, path, token, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: bench\r\n", method, path)
	if token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", token)
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	fmt.Fprintf(&b, "\r\n%s", body)
	return b.Bytes()
}

// loop calls work in a number of goroutines for the duration d, and returns the
// number of calls a second.
func loop(ctx context.Context, goroutines int, d time.Duration, work func(ctx context.Context, i int) error) float64 {
	var next atomic.Int64
	return rateOf(ctx, goroutines, d, func(stop context.Context, done func()) error {
		for stop.Err() == nil {
			if err := work(ctx, int(next.Add(1))); err != nil {
				return err
			}
			done()
		}
		return nil
	})
}
